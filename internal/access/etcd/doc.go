// SPDX-License-Identifier: Apache-2.0

// Package etcd talks to the etcd of a workload cluster that kubeadm made:
// who its members are, who leads, and changes of the two. Members are reached
// as they must be when only the API server is known: by a port-forward to the
// static pod etcd-<node> in kube-system, with TLS inside it under the
// cluster's etcd CA, which also signs the client's own certificate.
//
// Keys stay in memory, and no error or log of this package holds one.
package etcd
