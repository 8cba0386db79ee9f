// SPDX-License-Identifier: Apache-2.0

package podnetwork

import (
	"encoding/json"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// node returns a node that is that many minutes old.
func node(name string, minutes int, ip string, pods ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(0, 0).Add(-time.Duration(minutes) * time.Minute))}}
	n.Spec.PodCIDRs = pods
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: ip}}
	return n
}

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, t := range texts {
		all = append(all, netip.MustParsePrefix(t))
	}
	return all
}

func route(to, via string) Route {
	return Route{netip.MustParsePrefix(to), netip.MustParseAddr(via)}
}

func TestFor(t *testing.T) {
	t.Parallel()
	old := node("b", 0, "172.30.0.12")
	old.Spec.PodCIDR = "10.244.1.0/24"
	for name, tc := range map[string]struct {
		nodes []*corev1.Node
		want  Plan
	}{
		"no host": {nil, Plan{}},
		"the node has no addresses yet, another has": {
			[]*corev1.Node{node("a", 0, "172.30.0.11"), node("b", 0, "172.30.0.12", "10.244.1.0/24")},
			Plan{Pods: prefixes("10.244.1.0/24"), Routes: []Route{route("10.244.1.0/24", "172.30.0.12")}},
		},
		"all have addresses": {
			[]*corev1.Node{node("c", 0, "172.30.0.13", "10.244.2.0/24"), node("a", 0, "172.30.0.11", "10.244.0.0/24"), node("b", 0, "172.30.0.12", "10.244.1.0/24")},
			Plan{
				Own: prefixes("10.244.0.0/24"), Pods: prefixes("10.244.0.0/24", "10.244.1.0/24", "10.244.2.0/24"),
				Routes: []Route{route("10.244.1.0/24", "172.30.0.12"), route("10.244.2.0/24", "172.30.0.13")},
			},
		},
		"one of a single family": {
			[]*corev1.Node{old}, Plan{Pods: prefixes("10.244.1.0/24"), Routes: []Route{route("10.244.1.0/24", "172.30.0.12")}},
		},
		"Pods of both families on a node of one": {
			[]*corev1.Node{node("a", 1, "172.30.0.11", "10.244.0.0/24", "fd00:0::/64"), node("b", 0, "172.30.0.12", "10.244.1.0/24", "fd00:0:0:1::/64")},
			Plan{
				Own: prefixes("10.244.0.0/24", "fd00::/64"), Pods: prefixes("10.244.0.0/24", "10.244.1.0/24", "fd00::/64", "fd00:0:0:1::/64"),
				Routes:  []Route{route("10.244.1.0/24", "172.30.0.12")},
				Skipped: []string{"Node b: it has no InternalIP of the family of its podCIDR fd00:0:0:1::/64"},
			},
		},
		"an IPv6 cluster": {
			[]*corev1.Node{node("a", 0, "fd01::11", "fd00:0:0:0::/64"), node("b", 0, "fd01::12", "fd00:0:0:1::/64")},
			Plan{Own: prefixes("fd00::/64"), Pods: prefixes("fd00::/64", "fd00:0:0:1::/64"), Routes: []Route{route("fd00:0:0:1::/64", "fd01::12")}},
		},
		"two claim the same addresses": {
			[]*corev1.Node{node("b", 0, "172.30.0.12", "10.244.1.0/24"), node("c", 5, "172.30.0.13", "10.244.1.0/25")},
			Plan{
				Pods: prefixes("10.244.1.0/25"), Routes: []Route{route("10.244.1.0/25", "172.30.0.13")},
				Skipped: []string{"Node b: its podCIDR 10.244.1.0/24 overlaps 10.244.1.0/25 of an older node"},
			},
		},
		"what is no prefix": {
			[]*corev1.Node{node("b", 0, "172.30.0.12", "many")}, Plan{Skipped: []string{`Node b: its podCIDR "many" is none`}},
		},
	} {
		got := For("a", tc.nodes)
		if diff := cmp.Diff(tc.want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		slices.Reverse(tc.nodes)
		if again := For("a", tc.nodes); !slices.Equal(again.Routes, got.Routes) || !slices.Equal(again.Pods, got.Pods) {
			t.Errorf("%s: in another order it is %v, not %v", name, again, got)
		}
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	a, b, moved := route("10.244.1.0/24", "172.30.0.12"), route("10.244.2.0/24", "172.30.0.13"), route("10.244.1.0/24", "172.30.0.14")
	for name, tc := range map[string]struct {
		have, want []Route
		changes    Changes
	}{
		"nothing":          {nil, nil, Changes{}},
		"as it should be":  {[]Route{a, b}, []Route{b, a}, Changes{}},
		"a node came":      {[]Route{a}, []Route{a, b}, Changes{Add: []Route{b}}},
		"a node went":      {[]Route{a, b}, []Route{a}, Changes{Remove: []Route{b}}},
		"a node was moved": {[]Route{a, b}, []Route{moved, b}, Changes{Add: []Route{moved}}},
	} {
		got := Compare(tc.have, tc.want)
		if !slices.Equal(got.Add, tc.changes.Add) || !slices.Equal(got.Remove, tc.changes.Remove) {
			t.Errorf("%s: got %v, want %v", name, got, tc.changes)
		}
	}
}

func TestConflist(t *testing.T) {
	t.Parallel()
	text, err := Conflist(prefixes("10.244.1.0/24", "fd00::/64"), 1400)
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	const wanted = `{"cniVersion": "1.0.0", "name": "capstan", "plugins": [
		{"type": "ptp", "mtu": 1400, "ipam": {"type": "host-local", "dataDir": "/run/cni/ipam",
			"ranges": [[{"subnet": "10.244.1.0/24"}], [{"subnet": "fd00::/64"}]], "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}},
		{"type": "portmap", "capabilities": {"portMappings": true}, "backend": "nftables"}]}`
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(wanted), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
