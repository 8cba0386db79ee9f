// SPDX-License-Identifier: Apache-2.0

// Package containermachines is the kind of infrastructure whose machines are
// containers of this host, with systemd, containerd and kubelet in them: genuine
// nodes of Kubernetes, and no boundary between tenants.
//
// Its state is in one folder, for root alone:
//
//	subnet.json                  where all machines of this host have their addresses
//	clusters/<identity>.json     a cluster: where its API server is reached
//	machines/<name>/machine.json a machine: its address, and how far it is
//	machines/<name>/root/        the topmost layer of its root that is not its own to write
//	machines/<name>/var/         its /var, with its bootstrap data
//
// A machine's container has the name of its folder. Containers continue to run
// while this process does not, and are found again; the endpoints of clusters
// answer while it runs.
package containermachines
