// SPDX-License-Identifier: Apache-2.0

// Package localcluster creates the control plane endpoint of a cluster on this
// host.
//
// Watches: LocalCluster; Cluster, by reference; deleted LocalClusters, by identity;
// Backends.
// Writes: LocalCluster finalizer, spec.controlPlaneEndpoint, spec.identity, status;
// the infrastructure of one of Backends.
// The controller also removes the infrastructure of a LocalCluster that was deleted
// after it lost its finalizer. If such a LocalCluster disappears without a request
// for its deletion, for example after a move, the controller only releases the
// infrastructure, which now belongs to another owner. While a LocalCluster is
// paused, its cluster continues to run.
// Order of deletion: the endpoint and all that runs behind it, then the finalizer.
// Invariant: a LocalCluster that is externally managed, or that no Cluster owns, is
// not changed.
package localcluster
