// SPDX-License-Identifier: Apache-2.0

// Package kubeadmconfig renders a KubeadmConfig into the bootstrap data with which
// its machine becomes a node, and extends the machine's token until then.
//
// Watches: KubeadmConfig; Machine and MachinePool by reference; Cluster,
// certificate Secrets, the init lock and the connection to the workload
// cluster by label.
// Writes: KubeadmConfig status and missing fields of
// spec.joinConfiguration.discovery; the Secret with the data; the init lock
// (ConfigMap <cluster>-lock); bootstrap tokens in the workload cluster;
// certificate Secrets, only in a Cluster without a controlPlaneRef.
// Plans: internal/controller/kubeadmconfig/bootstrapdata, which requests each action in its order;
// existing data first, then init or join.
// Invariant: existing data is not rendered again for a Machine, even if the spec
// changes. The data of a MachinePool is, for the machines that it creates later.
package kubeadmconfig
