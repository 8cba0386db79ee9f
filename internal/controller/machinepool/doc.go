// SPDX-License-Identifier: Apache-2.0

// Package machinepool follows the machines that a provider creates for a
// MachinePool: with a Machine for each where the provider has infrastructure
// machines, and by their Nodes where it has none.
//
// Watches: MachinePool; bootstrap config and infrastructure by owner and by
// reference; infrastructure machines by the label of their pool; Machine by
// owner; Cluster by name; Node and the connection in the workload cluster.
// Writes: MachinePool finalizer, cluster label, owner, spec.providerIDList,
// spec.template.spec.bootstrap.dataSecretName and status; owner and label of the
// objects referred to; Machine (create, delete, labels, annotations, the spec
// fields that change in place, condition OwnerRemediated); of pools without
// Machines labels, annotations and taints of the Nodes, and their deletion.
// Phases: bootstrap, infrastructure, machines, nodes; all run each time.
// Order of deletion: Machines together with infrastructure and bootstrap config,
// then Nodes.
// Invariant: a Node of another Machine or pool is never deleted, nor is a ready one
// while the provider's report is incomplete; internal/pure/machinepool decides.
package machinepool
