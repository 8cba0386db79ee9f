// SPDX-License-Identifier: Apache-2.0

package network

import "net/netip"

// Pair is a container's pair of links.
type Pair struct {
	Host     string // the name of the host's end
	Bridge   string // to which that is attached
	Hardware string // the address of the container's end, eth0
	MTU      int    // 0 is the bridge's
	Address  netip.Prefix
	Gateway  netip.Addr `json:",omitzero"`
	Routes   []Route    `json:",omitempty"`
}

// Route names the neighbor through which some addresses are reached.
type Route struct {
	To  netip.Prefix
	Via netip.Addr
}
