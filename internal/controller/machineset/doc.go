// SPDX-License-Identifier: Apache-2.0

// Package machineset keeps the number of Machines of a MachineSet as desired.
//
// Watches: MachineSet; Machine, by owner, or by selector while it has none;
// Cluster and MachineDeployment, by label; templates, by reference; the control
// plane, while Machines wait for it; the MachineSet that takes Machines over.
// Writes: MachineSet finalizer, cluster label, owner of standalone sets,
// status; Machine (create, delete, owner of adopted ones, labels, annotations,
// the spec fields that change in place, condition OwnerRemediated; those that are
// updated in place: owner, the marks of the update, version and failure domain);
// bootstrap and infrastructure objects (create, delete, labels, annotations, spec
// in an update in place);
// owner of the templates of standalone sets.
// Phases: preflight, adopt, remediate, synchronise, update in place, scale; in
// deletion: delete Machines.
// Order of creation: bootstrap config, infrastructure, Machine.
// Invariant: a Machine is deleted only by an action that package scaling planned,
// or with its set; objects created for a Machine that could not be created are
// deleted again.
package machineset
