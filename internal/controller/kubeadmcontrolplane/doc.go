// SPDX-License-Identifier: Apache-2.0

// Package kubeadmcontrolplane maintains a control plane of machines that kubeadm
// sets up: with the desired number and spec, and without loss of etcd's quorum.
//
// Watches: KubeadmControlPlane; Machine and Secret, by owner; deleted MachinePools; Secrets that users
// provide for a cluster; infrastructure templates, by reference; Cluster, by its
// control plane reference; in the workload cluster the connection, control
// plane Pods and Nodes.
// Writes: KubeadmControlPlane; Secrets of certificates and the kubeconfig;
// Machine, KubeadmConfig and infrastructure machines (creation, labels,
// annotations, fields that may change in place, deletion, and their desired state
// where an extension updates them); the conditions of a
// control plane's components and UpToDate on Machine; the owner of the
// infrastructure template; on KubeadmConfig when the certificates of its machine
// expire; in the workload cluster etcd's members, kubeadm's ConfigMap and bindings,
// kube-proxy and CoreDNS.
// The controller itself decides nothing about machines: the phases gather facts
// (package controlplane), from which that package computes health,
// remediation, termination, the next change of machines and the whole status.
// Order: certificates, endpoint, kubeconfig, machines in place, inspection,
// etcd members, hooks of deletion, remediation, then one change of machines,
// addons, ends of certificates.
// Invariant: a machine is created or deleted only when all others are healthy. A
// voting etcd member is removed only when a healthy majority remains, and a deleted
// machine only when another one remains that serves the API.
package kubeadmcontrolplane
