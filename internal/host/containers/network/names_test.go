// SPDX-License-Identifier: Apache-2.0

package network

import (
	"net/netip"
	"testing"
)

func TestNamesIdentifyOwnerOfLink(t *testing.T) {
	one, two := Names{"0123abcd"}, Names{"0123abce"}
	link, bridge := one.Link("some-container"), one.Bridge("net")
	for _, l := range []string{link, bridge} {
		if len(l) > 15 { // IFNAMSIZ, with the terminating zero
			t.Errorf("%s is too long", l)
		}
	}
	for name, tc := range map[string]struct {
		names              Names
		link               string
		container, network bool
	}{
		"a container's":     {one, link, true, false},
		"a network's":       {one, bridge, false, true},
		"of another folder": {two, link, false, false},
		"of another owner":  {one, "eth0", false, false},
		"of another kind":   {one, "x" + link[1:], false, false},
	} {
		if container, network := tc.names.OwnsLink(tc.link); container != tc.container || network != tc.network {
			t.Errorf("%s: got %v, %v", name, container, network)
		}
	}
	if got, ok := one.NetworkOfTable(one.Table("a-b")); got != "a-b" || !ok {
		t.Errorf("got %s, %v", got, ok)
	}
	if _, ok := two.NetworkOfTable(one.Table("a-b")); ok {
		t.Error("the table of another folder")
	}
	if one.Link("a") == one.Link("b") || link != one.Link("some-container") {
		t.Error("containers share a name")
	}
}

func TestHardwareAddressesStay(t *testing.T) {
	n := Names{"0123abcd"}
	a, b := n.Hardware("a"), n.Hardware("b")
	if a.String() != n.Hardware("a").String() || a.String() == b.String() || a[0]&3 != 2 {
		t.Errorf("got %s and %s", a, b)
	}
}

func TestOverlap(t *testing.T) {
	p := netip.MustParsePrefix
	taken := []Taken{{p("0.0.0.0/0"), "eth0"}, {p("192.0.2.0/24"), "eth0"}, {p("172.30.0.0/16"), "b1"}}
	for name, tc := range map[string]struct {
		prefix netip.Prefix
		want   string
	}{
		"free, for all that a default route reaches": {p("172.31.0.0/24"), ""},
		"the same":     {p("192.0.2.0/24"), "eth0"},
		"a part of it": {p("192.0.2.128/25"), "eth0"},
		"more than it": {p("192.0.0.0/16"), "eth0"},
		"our own":      {p("172.30.0.0/16"), ""},
	} {
		if got, _ := Overlap(tc.prefix, "b1", taken); got.By != tc.want {
			t.Errorf("%s: got %q, want %q", name, got.By, tc.want)
		}
	}
}
