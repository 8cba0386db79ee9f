// SPDX-License-Identifier: Apache-2.0

// Package validation refuses objects of built-in kinds that a real API server refuses,
// as far as simulated controllers read them. The validation of a real one is in
// k8s.io/kubernetes, which importers of simulated clusters do not link.
package validation
