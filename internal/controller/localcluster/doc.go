// SPDX-License-Identifier: Apache-2.0

// Package localcluster gives a cluster on this host its control plane endpoint.
//
// Watches: LocalCluster; Cluster, by reference.
// Writes: LocalCluster finalizer, spec.controlPlaneEndpoint, status; the
// infrastructure behind one of Backends.
// Removes, too, the infrastructure of a LocalCluster that was deleted and lost
// its finalizer.
// Order of deletion: the endpoint with all that runs behind it, then the
// finalizer.
// Invariant: a LocalCluster that is managed from outside, or that no Cluster
// owns, is left alone.
package localcluster
