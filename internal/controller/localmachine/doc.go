// SPDX-License-Identifier: Apache-2.0

// Package localmachine runs one machine on this host with its bootstrap data,
// and takes it away.
//
// Watches: LocalMachine; Machine, by reference; MachinePool and Cluster, by label;
// Backend.
// Writes: LocalMachine finalizer, spec.providerID, status; the infrastructure
// behind Backend.
// Removes, too, the machine of a LocalMachine that was deleted and lost its
// finalizer.
// Waits for: the Machine that owns it, or its pool, the cluster's infrastructure,
// bootstrap data. Deletion waits for none of them.
// Invariant: providerID and provisioned are set together, once the machine has
// executed its bootstrap data, and stay.
package localmachine
