// SPDX-License-Identifier: Apache-2.0

// Package clusterresourceset takes care that each Cluster that a
// ClusterResourceSet selects has a ClusterResourceSetBinding, and tells what is
// applied. What applies it is controller clusterresourcesetbinding.
//
// Watches: ClusterResourceSet, and others of its namespace that go or are paused;
// Cluster, by label; ClusterResourceSetBinding, by its entries and owners; Secret
// and ConfigMap, by reference, and of both the metadata alone.
// Writes: ClusterResourceSet finalizer, status; ClusterResourceSetBinding
// (create); owner of Secrets and ConfigMaps.
// Phases: own the resources, make bindings; in deletion: wait for bindings.
// Invariant: nothing outside the namespace of a ClusterResourceSet is read.
package clusterresourceset
