// SPDX-License-Identifier: Apache-2.0

// Package localmachine runs one machine on this host with its bootstrap data, and
// deletes it.
//
// Watches: LocalMachine; Machine, by reference; MachinePool and Cluster, by label;
// Backends.
// Writes: LocalMachine finalizer, spec.providerID, status; the infrastructure
// behind Backend.
// The controller also removes the machine of a LocalMachine that was deleted after
// it lost its finalizer.
// Waits for: the Machine that owns it, or its pool, the cluster's infrastructure,
// bootstrap data. Deletion waits for none of them.
// Invariant: provisioned is set once the machine has executed its bootstrap data,
// and stays, as providerID does. A machine that was provisioned, according to its
// status or, after a move, to its Machine's provider ID, is never started again.
//
// A second controller, TemplateReconciler, reports on a LocalMachineTemplate the capacity
// of machines created from it, so that an autoscaler can scale from zero.
//
// Watches: LocalMachineTemplate.
// Writes: LocalMachineTemplate status.
package localmachine
