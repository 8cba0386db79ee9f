// SPDX-License-Identifier: Apache-2.0

// Package clusterclass makes a ClusterClass ready for Clusters: it owns the
// templates that the class names, and knows its variables.
//
// Watches: ClusterClass (spec, labels and annotations); templates by reference,
// and the CRDs of their kinds; registrations of extensions by the handlers that a class asks.
// Writes: ClusterClass status; owner of templates.
// Phases, each whatever becomes of the other: own templates, define variables.
// Invariant: status.observedGeneration moves only when all of that generation is
// in order, so whoever sees it may rely on status.variables.
//
// There is no finalizer: a class that goes takes its templates along, and
// admission lets none go that a Cluster uses.
package clusterclass
