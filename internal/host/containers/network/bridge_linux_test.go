// SPDX-License-Identifier: Apache-2.0

package network

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/host/containers/supervisor"
)

func TestEnsureCreatesBridgeOnce(t *testing.T) {
	if !inside(t) {
		return
	}
	ensured(t)
	ensured(t)
	link, err := netlink.LinkByName(bridge.Name)
	if err != nil {
		t.Fatal(err)
	}
	addresses, err := netlink.AddrList(link, unix.AF_INET)
	if err != nil || len(addresses) != 1 || addresses[0].IPNet.String() != "10.9.0.1/24" {
		t.Errorf("its addresses are %v, %v", addresses, err)
	}
	if a := link.Attrs(); link.Type() != "bridge" || a.MTU != 1400 || a.Flags&net.FlagUp == 0 || a.HardwareAddr.String() != names.Hardware(bridge.Name).String() {
		t.Errorf("it is a %s: %+v", link.Type(), a)
	}
	c, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	chains, err := c.ListChains()
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string]int{}
	for _, chain := range chains {
		all, err := c.GetRules(chain.Table, chain)
		if err != nil {
			t.Fatal(err)
		}
		rules[chain.Table.Name+" "+chain.Name] = len(all)
	}
	if diff := cmp.Diff(map[string]int{bridge.Table + " postrouting": 1, bridge.Table + " forward": 3}, rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	if _, networks, err := names.Links(); err != nil || !slices.Equal(networks, []string{bridge.Name}) {
		t.Errorf("its networks are %v, %v", networks, err)
	}
	if tables, err := names.Tables(); err != nil || !slices.Equal(tables, []string{"net"}) {
		t.Errorf("its tables are %v, %v", tables, err)
	}
	for range 2 { // the second finds nothing
		if err := names.Remove(bridge.Name, bridge.Table); err != nil {
			t.Error(err)
		}
	}
	tables, err := names.Tables()
	_, networks, lerr := names.Links()
	if len(tables)+len(networks) > 0 || errors.Join(err, lerr) != nil {
		t.Errorf("left are %v and %v, %v, %v", tables, networks, err, lerr)
	}
}

// TestEnsureRefusesWhatHostHas: a network of containers must not take packets of the host.
func TestEnsureRefusesWhatHostHas(t *testing.T) {
	if !inside(t) {
		return
	}
	for _, l := range []netlink.Link{&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "lan0"}}, &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: bridge.Name}, PeerName: "peer0"}} {
		if err := netlink.LinkAdd(l); err != nil {
			t.Fatal(err)
		}
	}
	lan, err := netlink.LinkByName("lan0")
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(up("lo"), up("lan0"), netlink.AddrAdd(lan, &netlink.Addr{IPNet: ipNet(netip.MustParsePrefix("192.0.2.1/24"))}),
		netlink.RouteAdd(&netlink.Route{LinkIndex: lan.Attrs().Index, Dst: ipNet(netip.MustParsePrefix("198.51.100.0/24")), Gw: net.IPv4(192, 0, 2, 9)}),
		netlink.RouteAdd(&netlink.Route{LinkIndex: lan.Attrs().Index, Gw: net.IPv4(192, 0, 2, 8)}))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		name, address, want string
	}{
		"an address of a link":          {"b0", "192.0.2.129/25", "use 192.0.2.128/25 for a network: link lan0 of this host has 192.0.2.0/24"},
		"a network behind one":          {"b0", "198.51.0.1/16", "use 198.51.0.0/16 for a network: link lan0 of this host has 198.51.100.0/24"},
		"a link of that name":           {bridge.Name, "10.9.0.1/24", "make bridge " + bridge.Name + ": there is a link of that name that is none"},
		"what only a default route has": {"b0", "10.9.0.1/24", ""},
	} {
		err := names.Ensure(Bridge{Name: tc.name, Table: "t", Address: netip.MustParsePrefix(tc.address)})
		if (err == nil) != (tc.want == "") || err != nil && !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
		if _, lerr := netlink.LinkByName("b0"); (lerr == nil) != (err == nil) {
			t.Errorf("%s: the bridge: %v", name, lerr)
		}
		_ = Disconnect("b0")
	}
}

func TestConnectGivesContainerItsLink(t *testing.T) {
	if !inside(t) {
		return
	}
	ensured(t)
	pair := pairOf("one", 2)
	for range 2 { // the second is that of the next boot, and replaces the first
		ns := newNamespace(t)
		if err := Connect(pair, int(ns)); err != nil {
			t.Fatal(err)
		}
		h, err := netlink.NewHandleAt(ns)
		if err != nil {
			t.Fatal(err)
		}
		eth0, err := h.LinkByName("eth0")
		if err != nil {
			t.Fatal(err)
		}
		if a := eth0.Attrs(); a.MTU != bridge.MTU || a.HardwareAddr.String() != pair.Hardware || a.Flags&net.FlagUp == 0 {
			t.Errorf("eth0 is %+v", a)
		}
		addresses, err := h.AddrList(eth0, unix.AF_INET)
		if err != nil || len(addresses) != 1 || addresses[0].IPNet.String() != "10.9.0.2/24" {
			t.Errorf("its addresses are %v, %v", addresses, err)
		}
		routes, err := h.RouteList(eth0, unix.AF_INET)
		var got []string
		for _, r := range routes {
			if r.Gw != nil {
				got = append(got, fmt.Sprint(r.Dst, " by ", r.Gw))
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff([]string{"0.0.0.0/0 by 10.9.0.1", "10.10.0.0/16 by 10.9.0.9"}, got); diff != "" || err != nil {
			t.Errorf("routes, %v (-want +got):\n%s", err, diff)
		}
		h.Close()
	}
	if containers, _, err := names.Links(); err != nil || !slices.Equal(containers, []string{pair.Host}) {
		t.Errorf("its links are %v, %v", containers, err)
	}
	if err := errors.Join(Disconnect(pair.Host), Disconnect(pair.Host)); err != nil {
		t.Error(err)
	}
	missing, wrong := pair, pair
	missing.Bridge, wrong.Hardware = "none", "none"
	ns := newNamespace(t)
	for name, tc := range map[string]struct {
		pair Pair
		want string
	}{
		"without its bridge": {missing, "find bridge none, which EnsureNetwork makes: "},
		"a wrong address":    {wrong, "address none: invalid MAC address"},
	} {
		if err := Connect(tc.pair, int(ns)); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
	if containers, _, err := names.Links(); err != nil || len(containers) > 0 {
		t.Errorf("left are %v, %v", containers, err)
	}
}

// TestRulesLetOnlyContainersConnect: machines reach what the host reaches, with its
// address, and other hosts cannot open connections to them.
func TestRulesLetOnlyContainersConnect(t *testing.T) {
	if !inside(t) {
		return
	}
	ensured(t)
	here, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = here.Close() }()
	one, two, away := newNamespace(t), newNamespace(t), newNamespace(t)
	lan := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "lan0"}, PeerName: "eth0", PeerNamespace: netlink.NsFd(away)}
	if err := errors.Join(Connect(pairOf("one", 2), int(one)), Connect(pairOf("two", 3), int(two)), netlink.LinkAdd(lan),
		netlink.AddrAdd(lan, &netlink.Addr{IPNet: ipNet(netip.MustParsePrefix("192.0.2.1/24"))}), up("lan0"),
		os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)); err != nil {
		t.Fatal(err)
	}
	h, err := netlink.NewHandleAt(away)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := address(h, Pair{Address: netip.MustParsePrefix("192.0.2.2/24"), Gateway: netip.MustParseAddr("192.0.2.1")}); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		from, to netns.NsHandle
		address  string
		client   string // as the server sees it; "" if it must not be reached
	}{
		"another host":                {one, away, "192.0.2.2:80", "192.0.2.1"},
		"a container of its network":  {one, two, "10.9.0.3:80", "10.9.0.2"},
		"the host":                    {one, here, "10.9.0.1:80", "10.9.0.2"},
		"a container, by the host":    {here, two, "10.9.0.3:81", "10.9.0.1"},
		"a container, by other hosts": {away, two, "10.9.0.3:82", ""},
	} {
		clients := serve(t, tc.to, tc.address)
		within := 10 * time.Second
		if tc.client == "" {
			within = 100 * time.Millisecond // nothing answers a packet that is dropped
		}
		err := connects(t, tc.from, tc.address, within)
		if (err == nil) != (tc.client != "") {
			t.Errorf("%s: got %v", name, err)
		}
		if err != nil {
			continue
		}
		if got := <-clients; got != tc.client {
			t.Errorf("%s: the server sees %s, want %s", name, got, tc.client)
		}
	}
}

// TestNetworkProgramReportsItsError: its supervisor forwards the text.
func TestNetworkProgramReportsItsError(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ plan, want string }{
		"no plan":               {"", "EOF\n"},
		"an address is no such": {`{"Address": "x"}`, "x"},
		"no namespace":          {`{"Host": "c0", "Bridge": "b0"}`, "enter the network namespace of the container: "},
	} {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
		cmd.Args, cmd.Stdin = []string{supervisor.NetworkName}, strings.NewReader(tc.plan)
		var text bytes.Buffer
		cmd.Stderr = &text
		err := cmd.Run()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 || !strings.Contains(text.String(), tc.want) {
			t.Errorf("%s: got %v, %q, want %q", name, err, text.String(), tc.want)
		}
	}
}

// TestForwardingIsThatOfNetworkAndBoot: both reset the setting.
func TestForwardingIsThatOfNetworkAndBoot(t *testing.T) {
	t.Parallel()
	f, err := HostForwarding()
	if err != nil {
		t.Fatal(err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	ns, err := os.Readlink("/proc/self/ns/net") // net:[4026531840]
	if err != nil {
		t.Fatal(err)
	}
	want := "/run/capstan/forwarding-" + strings.TrimSpace(string(boot)) + "-" + regexp.MustCompile(`\d+`).FindString(ns)
	if f.Dir != want || f.File != "/proc/sys/net/ipv4/ip_forward" {
		t.Errorf("got %+v, want the folder %s", f, want)
	}
}
