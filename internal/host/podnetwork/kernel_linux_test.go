// SPDX-License-Identifier: Apache-2.0

package podnetwork

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// inNamespace runs a test in a separate network namespace, which has the link eth0
// with an address. It needs root.
func inNamespace(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a network namespace is made by root alone")
	}
	// The thread is never unlocked: it ends with the test, and its namespace with it.
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("no network namespace can be made here: %v", err)
	}
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0", MTU: 1400}, PeerName: "peer"}
	address := &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(172, 30, 0, 11), Mask: net.CIDRMask(24, 32)}}
	err := netlink.LinkAdd(link)
	if err == nil {
		err = errors.Join(netlink.AddrAdd(link, address), netlink.LinkSetUp(link))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestRoutesBecomeThoseOfThePlan(t *testing.T) {
	inNamespace(t)
	link, err := netlink.LinkByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	other := &netlink.Route{Dst: &net.IPNet{IP: net.IPv4(10, 99, 0, 0), Mask: net.CIDRMask(24, 32)}, LinkIndex: link.Attrs().Index}
	if err := netlink.RouteAdd(other); err != nil {
		t.Fatal(err)
	}
	a, b := route("10.244.1.0/24", "172.30.0.12"), route("10.244.2.0/24", "172.30.0.13")
	moved := route("10.244.1.0/24", "172.30.0.14")
	for _, want := range [][]Route{{a, b}, {a, b}, {moved}, nil} {
		if err := SetRoutes(want); err != nil {
			t.Fatal(err)
		}
		if have, err := routes(); err != nil || !slices.Equal(have, want) {
			t.Errorf("the routes are %v, %v; want %v", have, err, want)
		}
	}
	if left, err := netlink.RouteGet(net.IPv4(10, 99, 0, 1)); err != nil || len(left) != 1 {
		t.Errorf("the route of another owner is gone: %v, %v", left, err)
	}
	if err := SetRoutes([]Route{route("10.244.1.0/24", "192.0.2.1")}); err == nil {
		t.Error("a route by an address that is on no link: want an error")
	}
}

func TestTheMTUIsThatOfTheDefaultRoute(t *testing.T) {
	inNamespace(t)
	if mtu, err := MTU(); mtu != 0 || err != nil {
		t.Errorf("without a default route it is %d, %v; want 0", mtu, err)
	}
	if err := netlink.RouteAdd(&netlink.Route{Gw: net.IPv4(172, 30, 0, 1)}); err != nil {
		t.Fatal(err)
	}
	if mtu, err := MTU(); mtu != 1400 || err != nil {
		t.Errorf("it is %d, %v; want 1400", mtu, err)
	}
}

func TestMasqueradingIsSetAsAWhole(t *testing.T) {
	inNamespace(t)
	own, pods := prefixes("10.244.0.0/24"), prefixes("10.244.0.0/24", "10.244.1.0/24")
	for range 2 { // the second call replaces the first result
		if err := SetMasquerade(own, pods); err != nil {
			t.Fatal(err)
		}
	}
	c, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	chains, err := c.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil || len(chains) != 1 {
		t.Fatalf("the chains are %v, %v; want one", chains, err)
	}
	rules, err := c.GetRules(chains[0].Table, chains[0])
	// Multicast of both families, two prefixes of Pods, and the node's own.
	if err != nil || len(rules) != 5 {
		t.Errorf("there are %d rules, %v; want 5", len(rules), err)
	}
	if want := len(masqueradeRules(own, pods)); want != 5 {
		t.Errorf("%d rules are made, want 5", want)
	}
}

func TestConfigIsWrittenAtOnceAndOnlyIfItDiffers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, configName)
	if err := WriteConfig(file, []byte("one")); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(file)
	if err != nil || before.Mode().Perm() != 0o600 {
		t.Fatalf("it is %v, %v; want 0600", before, err)
	}
	for text, same := range map[string]bool{"one": true, "two": false} {
		if err := WriteConfig(file, []byte("one")); err != nil {
			t.Fatal(err)
		}
		before, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := WriteConfig(file, []byte(text)); err != nil {
			t.Fatal(err)
		}
		after, err := os.Stat(file)
		if err != nil || os.SameFile(before, after) != same {
			t.Errorf("%s over one: the same file: want %v (%v)", text, same, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("there are %v, %v; want the file alone", entries, err)
	}
	if err := WriteConfig(filepath.Join(dir, "none", configName), nil); err == nil {
		t.Error("into a folder that is not there: want an error")
	}
}

const configName = "05-capstan.conflist"
