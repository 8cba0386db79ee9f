// SPDX-License-Identifier: Apache-2.0

// Package simulated is an infrastructure that pretends: a machine is a record,
// and its cluster is an API server and an etcd in memory, which clients reach
// at an address of their own and cannot tell from real ones for what they use.
//
// What a machine becomes follows from its user data alone, as on a real one:
// kubeadm init founds the cluster with the keys it is given, kubeadm join
// enters it with a token, and whatever kubeadm would refuse is refused here,
// with the reason in the machine's status. Before kubeadm init has run,
// connections to the cluster's address are refused.
//
// Everything is kept in a directory and is the same after a restart of the
// process, once EnsureCluster and EnsureMachine have named it again. A machine
// at rest costs no goroutine and no timer.
package simulated
