// SPDX-License-Identifier: Apache-2.0

// Package clusterresourceset ensures that each Cluster that a ClusterResourceSet
// selects has a ClusterResourceSetBinding, and reports what is applied. Controller
// clusterresourcesetbinding applies the resources.
//
// Watches: ClusterResourceSet, and others of its namespace that are deleted or paused;
// Cluster, by label; ClusterResourceSetBinding, by its entries and owners; Secret
// and ConfigMap, by reference, and of both the metadata alone.
// Writes: ClusterResourceSet finalizer, status; ClusterResourceSetBinding
// (create); owner of Secrets and ConfigMaps.
// Phases: own the resources, create bindings; in deletion: wait for bindings.
// Invariant: nothing outside the namespace of a ClusterResourceSet is read.
package clusterresourceset
