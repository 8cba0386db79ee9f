// SPDX-License-Identifier: Apache-2.0

// Package cluster provisions a Cluster through its provider objects, aggregates the
// status of its parts, and deletes it in order.
//
// Watches: Cluster; control plane and infrastructure objects by reference;
// MachineDeployment, MachineSet, MachinePool and Machine by cluster name;
// connections to workload clusters; ClusterClass (availability gates) by class.
// Writes: Cluster status, finalizer, spec.controlPlaneEndpoint; owner and label
// of the objects it refers to; the kubeconfig Secret of a Cluster without a
// control plane object.
// Order of deletion: hook BeforeClusterDelete of a topology, workers, control plane,
// infrastructure.
// Invariant: the infrastructure is deleted only when no machine is left.
package cluster
