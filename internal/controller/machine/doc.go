// SPDX-License-Identifier: Apache-2.0

// Package machine provisions and deletes one Machine.
//
// Watches: Machine; Cluster, MachineSet, MachineDeployment and MachinePool by
// label; MachineHealthCheck by cluster; bootstrap and infrastructure objects by owner
// and by reference; Node and the connection in the workload cluster.
// Writes: Machine finalizer, cluster label, owner of standalone Machines,
// spec.providerID, spec.failureDomain, spec.bootstrap.dataSecretName, spec.version
// of a Machine of a pool, and status, except the conditions of the control plane
// and of health checks, which it only removes when no check selects the Machine;
// owner and label of the objects referred to; labels, annotations, taints and
// spec.unschedulable of the Node.
// Phases: bootstrap, infrastructure, node, update in place, certificates; all run each time.
// Order of deletion: pre-drain hooks, drain, volumes, pre-terminate hooks,
// infrastructure, bootstrap, Node; package machinedeletion decides.
// Invariant: the Node is deleted only after its infrastructure was deleted.
package machine
