// SPDX-License-Identifier: Apache-2.0

// Package simulated is a simulated infrastructure: a machine is a record, and its
// cluster is an API server and an etcd in memory, which clients reach at a separate
// address and cannot distinguish from real ones for what they use.
//
// What a machine does follows from its user data alone, as on a real one: kubeadm
// init creates the cluster with the given keys, kubeadm join joins it with a token,
// and what kubeadm would refuse is refused here, with the reason in the machine's
// status. Before kubeadm init has run, connections to the cluster's address are
// refused.
//
// Everything is kept in a directory and is the same after a restart of the process,
// once EnsureCluster and EnsureMachine have named it again. A machine in steady
// state costs no goroutine and no timer.
package simulated
