// SPDX-License-Identifier: Apache-2.0

// Package kubeadmconfig renders a KubeadmConfig into the bootstrap data with
// which its machine becomes a node, and keeps the machine's token alive until
// it is one.
//
// Watches: KubeadmConfig; Machine and MachinePool by reference; Cluster,
// certificate Secrets, the init lock and the connection to the workload
// cluster by label.
// Writes: KubeadmConfig status and what is missing in
// spec.joinConfiguration.discovery; the Secret with the data; the init lock
// (ConfigMap <cluster>-lock); bootstrap tokens in the workload cluster;
// certificate Secrets, only in a Cluster without a controlPlaneRef.
// Plans: internal/pure/bootstrapdata, which asks for each act in its order; data
// that is there first, then init or join.
// Invariant: data once made is not made again for a Machine, whatever changes
// in the spec. That of a MachinePool is, for the machines that it gets later.
package kubeadmconfig
