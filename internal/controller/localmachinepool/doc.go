// SPDX-License-Identifier: Apache-2.0

// Package localmachinepool runs the desired number of equal machines of a
// MachinePool on this host: one LocalMachine each, for which the core creates a
// Machine.
//
// Watches: LocalMachinePool; LocalMachine and Machine, by owner or label;
// MachinePool, by reference; Cluster, by label.
// Writes: LocalMachinePool finalizer, spec.providerID, spec.providerIDList,
// status; creates LocalMachines, with owner and labels, and deletes them: through
// their Machines where there are any, so that Nodes are drained first.
// Waits for: the MachinePool that owns it; before it creates machines, for the cluster's
// infrastructure and bootstrap data. Deletion waits for the machines.
// Invariant: an old machine is deleted only when the desired number of others is
// available; see package localpool.
package localmachinepool
