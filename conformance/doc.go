// SPDX-License-Identifier: Apache-2.0

// Package conformance is what the suites below it share: checks, each a
// sentence of docs/contract, and the report of what they found out.
package conformance
