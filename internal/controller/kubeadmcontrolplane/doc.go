// SPDX-License-Identifier: Apache-2.0

// Package kubeadmcontrolplane keeps a control plane of machines that kubeadm
// sets up: as many as wanted, as the spec wants them, with etcd's quorum safe.
//
// Watches: KubeadmControlPlane; Machine and Secret, by owner; Secrets that users
// bring for a cluster; infrastructure templates, by reference; Cluster, by its
// control plane reference; in the workload cluster the connection, control
// plane Pods and Nodes.
// Writes: KubeadmControlPlane; Secrets of certificates and the kubeconfig;
// Machine, KubeadmConfig and infrastructure machines (creation, labels,
// annotations, fields that may change in place, deletion, and what they become
// where an extension updates them); the conditions of a
// control plane's components and UpToDate on Machine; the owner of the
// infrastructure template; on KubeadmConfig when the certificates of its machine
// end; in the workload cluster etcd's members, kubeadm's ConfigMap and bindings,
// kube-proxy and CoreDNS.
// Decides nothing about machines by itself: the phases gather facts (package
// pure/kubeadmcontrolplane), from which health, remediation, termination, the
// next change of machines and all that is reported are made.
// Order: certificates, endpoint, kubeconfig, machines in place, inspection,
// etcd members, hooks of deletion, remediation, then one change of machines,
// addons, ends of certificates.
// Invariant: a machine is created or deleted only when all others are healthy.
// An etcd member that votes is removed only when a healthy majority is left, and
// a machine that goes only when another is left that serves the API.
package kubeadmcontrolplane
