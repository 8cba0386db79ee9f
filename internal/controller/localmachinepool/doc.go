// SPDX-License-Identifier: Apache-2.0

// Package localmachinepool keeps as many equal machines on this host as a
// MachinePool wants: one LocalMachine each, for which the core makes a Machine.
//
// Watches: LocalMachinePool; LocalMachine and Machine, by owner or label;
// MachinePool, by reference; Cluster, by label.
// Writes: LocalMachinePool finalizer, spec.providerID, spec.providerIDList,
// status; creates LocalMachines, with owner and labels, and deletes them: by
// their Machines where there are any, so that Nodes are drained first.
// Waits for: the MachinePool that owns it; to make machines, for the cluster's
// infrastructure and bootstrap data. Deletion waits for the machines.
// Invariant: an old machine goes only when as many others are available as are
// wanted; see package localpool.
package localmachinepool
