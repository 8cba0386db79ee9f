// SPDX-License-Identifier: Apache-2.0

// Package localmachine runs one machine on this host with its bootstrap data,
// and takes it away.
//
// Watches: LocalMachine; Machine, by reference; MachinePool and Cluster, by label;
// Backends.
// Writes: LocalMachine finalizer, spec.providerID, status; the infrastructure
// behind Backend.
// Removes, too, the machine of a LocalMachine that was deleted and lost its
// finalizer.
// Waits for: the Machine that owns it, or its pool, the cluster's infrastructure,
// bootstrap data. Deletion waits for none of them.
// Invariant: provisioned is set once the machine has executed its bootstrap data,
// and stays, as providerID does. One that was provisioned, as its status says or,
// where it was moved to, its Machine's provider ID, is never started again.
package localmachine
