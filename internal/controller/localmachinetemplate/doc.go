// SPDX-License-Identifier: Apache-2.0

// Package localmachinetemplate tells, on a template, what machines made from it
// will have to offer, so that an autoscaler can start from none.
//
// Watches: LocalMachineTemplate.
// Writes: LocalMachineTemplate status.
package localmachinetemplate
