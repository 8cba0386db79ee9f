// SPDX-License-Identifier: Apache-2.0

// Package etcd pretends an etcd cluster: its members, leader, quorum and
// alarms live in memory, and its Cluster, Maintenance and KV services are
// served over connections that the caller hands in, with etcd's own error
// values and with mutual TLS under the cluster's etcd CA. No data is stored:
// what a pretended API server keeps is its own business; it asks Healthy
// whether etcd would have taken a write.
package etcd
