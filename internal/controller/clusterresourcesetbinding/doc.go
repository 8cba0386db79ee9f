// SPDX-License-Identifier: Apache-2.0

// Package clusterresourcesetbinding applies the resources of all
// ClusterResourceSets that select a Cluster to it, on the shared connection to the
// workload cluster, and records the applied resources in the Cluster's binding.
//
// Watches: ClusterResourceSetBinding; Cluster, by name; ClusterResourceSet, by
// selector and entry; Secret and ConfigMap, by entry, and of both the metadata
// alone; the connection to the workload cluster, and there the definitions of
// kinds while one is awaited.
// Writes: ClusterResourceSetBinding (spec, owners, annotation
// capstan.dev/not-applied, delete); objects in the workload cluster.
// Order: by the names of ClusterResourceSets, then as these name their resources;
// within a resource, what others need first.
// Invariant: an object is sent once for each content of its resource; an applied
// object is never deleted.
package clusterresourcesetbinding
