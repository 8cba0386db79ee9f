// SPDX-License-Identifier: Apache-2.0

// Package machinedeployment keeps the number and the spec of the Machines of a
// MachineDeployment as desired, through MachineSets.
//
// Watches: MachineDeployment; MachineSet, by owner, or by selector while it has
// none; Cluster, by label; templates, by reference. Machines are read, and not
// watched: each relevant change of a Machine changes the status of its MachineSet.
// Writes: MachineDeployment finalizer, cluster label, owner, revision, status;
// MachineSet (create, delete, owner of adopted ones, labels, annotations,
// spec); owner of the templates.
// Phases: own the templates, adopt, roll out; in deletion: delete MachineSets.
// Invariant: only package rollout decides the size of a MachineSet.
package machinedeployment
