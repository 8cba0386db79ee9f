// SPDX-License-Identifier: Apache-2.0

// Package machinedeployment keeps the Machines of a MachineDeployment as many
// and as they are asked for, by way of MachineSets.
//
// Watches: MachineDeployment; MachineSet, by owner, or by selector while it has
// none; Cluster, by label; templates, by reference. Machines are read, and not
// watched: whatever matters of them moves the status of their MachineSet.
// Writes: MachineDeployment finalizer, cluster label, owner, revision, status;
// MachineSet (create, delete, owner of adopted ones, labels, annotations,
// spec); owner of the templates.
// Phases: own the templates, adopt, roll out; in deletion: delete MachineSets.
// Invariant: the size of a MachineSet is decided by package rollout alone.
package machinedeployment
