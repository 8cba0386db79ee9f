// SPDX-License-Identifier: Apache-2.0

// Package etcd simulates an etcd cluster: its members, leader, quorum and alarms
// are in memory, and its Cluster, Maintenance and KV services are served over
// connections that the caller passes in, with etcd's own error values and with
// mutual TLS under the cluster's etcd CA. No data is stored: a simulated API server
// stores its own objects; it calls Healthy to check whether etcd would have
// accepted a write.
package etcd
