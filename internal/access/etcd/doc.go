// SPDX-License-Identifier: Apache-2.0

// Package etcd accesses the etcd of a workload cluster that kubeadm created: it
// lists the members, finds the leader, and changes both. It reaches members through
// the API server: with a port-forward to the static pod etcd-<node> in kube-system,
// and TLS inside it under the cluster's etcd CA, which also signs the client
// certificate.
//
// Keys are only in memory, and no error or log of this package contains one.
package etcd
