// SPDX-License-Identifier: Apache-2.0

// Package localcluster gives a cluster on this host its control plane endpoint.
//
// Watches: LocalCluster; Cluster, by reference; LocalClusters that have gone, by
// identity; Backends.
// Writes: LocalCluster finalizer, spec.controlPlaneEndpoint, spec.identity, status;
// the infrastructure behind one of Backends.
// Removes, too, the infrastructure of a LocalCluster that was deleted and lost
// its finalizer. Of one that only went it lets go: it is somebody else's now.
// While it is paused, its cluster runs on.
// Order of deletion: the endpoint with all that runs behind it, then the
// finalizer.
// Invariant: a LocalCluster that is managed from outside, or that no Cluster
// owns, is left alone.
package localcluster
