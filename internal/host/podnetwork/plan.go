// SPDX-License-Identifier: Apache-2.0

package podnetwork

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Plan is the network configuration of a node. The zero value is that of a node
// that waits for its addresses.
type Plan struct {
	// Own are the addresses of this node's Pods; none if none have been assigned.
	Own []netip.Prefix
	// Pods are the addresses of all Pods of the cluster. What a Pod sends to other
	// destinations is masqueraded: these have no route back to the Pod.
	Pods []netip.Prefix
	// Routes are the routes to the Pods of the other nodes.
	Routes []Route
	// Skipped has the reason for each node with an address that cannot be used.
	Skipped []string
}

// Route is the route to the Pods of a node.
type Route struct {
	To  netip.Prefix
	Via netip.Addr
}

// For returns the plan for the node of a name, given all nodes of its cluster.
//
// A node without addresses for Pods has no part in the plan yet. A node whose own
// address is of the other family than its Pods' is not reached. Of two nodes that
// claim the same addresses the older one has them, so that all nodes agree. The
// plan does not depend on the order of nodes.
func For(name string, nodes []*corev1.Node) Plan {
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, olderFirst)
	var p Plan
	for _, n := range nodes {
		for _, text := range cidrs(n) {
			pods, err := netip.ParsePrefix(text)
			if err != nil {
				p.skip(n, "its podCIDR %q is none", text)
				continue
			}
			pods = pods.Masked()
			if i := slices.IndexFunc(p.Pods, pods.Overlaps); i >= 0 {
				p.skip(n, "its podCIDR %s overlaps %s of an older node", pods, p.Pods[i])
				continue
			}
			p.Pods = append(p.Pods, pods)
			if n.Name == name {
				p.Own = append(p.Own, pods)
				continue
			}
			via, ok := address(n, pods.Addr().Is4())
			if !ok {
				p.skip(n, "it has no InternalIP of the family of its podCIDR %s", pods)
				continue
			}
			p.Routes = append(p.Routes, Route{pods, via})
		}
	}
	slices.SortFunc(p.Pods, netip.Prefix.Compare)
	slices.SortFunc(p.Routes, func(a, b Route) int { return a.To.Compare(b.To) })
	return p
}

func (p *Plan) skip(n *corev1.Node, format string, args ...any) {
	p.Skipped = append(p.Skipped, fmt.Sprintf("Node %s: %s", n.Name, fmt.Sprintf(format, args...)))
}

func olderFirst(a, b *corev1.Node) int {
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c
	}
	if a.Name < b.Name {
		return -1
	}
	return 1
}

// cidrs returns the addresses of a node's Pods, at most one prefix of each family.
func cidrs(n *corev1.Node) []string {
	if len(n.Spec.PodCIDRs) > 0 {
		return n.Spec.PodCIDRs
	}
	if n.Spec.PodCIDR != "" {
		return []string{n.Spec.PodCIDR}
	}
	return nil
}

// address returns the address under which other nodes reach a node.
func address(n *corev1.Node, v4 bool) (netip.Addr, bool) {
	for _, a := range n.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		if ip, err := netip.ParseAddr(a.Address); err == nil && ip.Unmap().Is4() == v4 {
			return ip.Unmap(), true
		}
	}
	return netip.Addr{}, false
}

// Changes are the changes from one set of routes to another.
type Changes struct{ Remove, Add []Route }

// Compare returns the changes from existing to desired routes. A route with another
// target is only added: it replaces the one of the same prefix.
func Compare(have, want []Route) Changes {
	var c Changes
	for _, r := range have {
		if !slices.ContainsFunc(want, func(w Route) bool { return w.To == r.To }) {
			c.Remove = append(c.Remove, r)
		}
	}
	for _, r := range want {
		if !slices.Contains(have, r) {
			c.Add = append(c.Add, r)
		}
	}
	return c
}

// conflist and the types below are the CNI configuration, with only the fields that
// the plugins need.
type conflist struct {
	CNIVersion string   `json:"cniVersion"`
	Name       string   `json:"name"`
	Plugins    []plugin `json:"plugins"`
}

type plugin struct {
	Type         string          `json:"type"`
	MTU          int             `json:"mtu,omitempty"`
	IPAM         *ipam           `json:"ipam,omitempty"`
	Capabilities map[string]bool `json:"capabilities,omitempty"`
	Backend      string          `json:"backend,omitempty"`
}

type ipam struct {
	Type    string          `json:"type"`
	DataDir string          `json:"dataDir"`
	Ranges  [][]subnet      `json:"ranges"`
	Routes  []ipamRouteJSON `json:"routes"`
}

type subnet struct {
	Subnet string `json:"subnet"`
}

type ipamRouteJSON struct {
	Dst string `json:"dst"`
}

// Conflist returns the CNI configuration for a node whose Pods have some addresses.
// Each Pod has a separate link to the node, without a bridge: its packets are
// always routed, so that the node's rules for Services apply. The mtu is that of
// the link between nodes; 0 is the kernel's default.
func Conflist(own []netip.Prefix, mtu int) ([]byte, error) {
	// Addresses are assigned again after a restart of the node, like its Pods.
	addresses := &ipam{Type: "host-local", DataDir: "/run/cni/ipam"}
	for _, p := range own {
		addresses.Ranges = append(addresses.Ranges, []subnet{{p.String()}})
		all := "0.0.0.0/0"
		if p.Addr().Is6() {
			all = "::/0"
		}
		addresses.Routes = append(addresses.Routes, ipamRouteJSON{all})
	}
	text, err := json.MarshalIndent(conflist{CNIVersion: "1.0.0", Name: "capstan", Plugins: []plugin{
		{Type: "ptp", MTU: mtu, IPAM: addresses},
		{Type: "portmap", Capabilities: map[string]bool{"portMappings": true}, Backend: "nftables"},
	}}, "", "  ")
	return append(text, '\n'), err
}
