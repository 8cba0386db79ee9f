// SPDX-License-Identifier: Apache-2.0

// Package localmachinetemplate reports, on a template, the capacity of machines
// created from it, so that an autoscaler can scale from zero.
//
// Watches: LocalMachineTemplate.
// Writes: LocalMachineTemplate status.
package localmachinetemplate
