// SPDX-License-Identifier: Apache-2.0

// Package clusterclass makes a ClusterClass ready for Clusters: it owns the
// templates that the class names, and collects its variables.
//
// Watches: ClusterClass (spec, labels and annotations); templates by reference,
// and the CRDs of their kinds; registrations of extensions by the handlers that a class names.
// Writes: ClusterClass status; owner of templates.
// Phases, each independent of errors in the other: own templates, define variables.
// Invariant: status.observedGeneration changes only when all of that generation is
// valid, so that readers may then rely on status.variables.
//
// There is no finalizer: the templates of a class are deleted with it, and
// admission refuses to delete a class that a Cluster uses.
package clusterclass
