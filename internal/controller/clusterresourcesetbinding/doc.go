// SPDX-License-Identifier: Apache-2.0

// Package clusterresourcesetbinding applies to one Cluster what all the
// ClusterResourceSets that select it bring, on the connection that the fleet has
// to it, and writes down in the Cluster's binding what it applied.
//
// Watches: ClusterResourceSetBinding; Cluster, by name; ClusterResourceSet, by
// selector and entry; Secret and ConfigMap, by entry, and of both the metadata
// alone; the connection to the workload cluster, and there the definitions of
// kinds while one is awaited.
// Writes: ClusterResourceSetBinding (spec, owners, annotation
// capstan.dev/not-applied, delete); objects in the workload cluster.
// Order: by the names of ClusterResourceSets, then as these name their resources;
// within a resource, what others need first.
// Invariant: an object is sent once for each content that its resource has; what
// was applied is never deleted.
package clusterresourcesetbinding
