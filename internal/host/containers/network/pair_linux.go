// SPDX-License-Identifier: Apache-2.0

package network

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/host/containers/supervisor"
)

// namespace is the descriptor of a container's network namespace in the process
// that a supervisor starts.
const namespace = 3

// init takes over if a supervisor started this program to create a pair: it must
// run before the packages that make the program large.
func init() {
	if len(os.Args) == 0 || os.Args[0] != supervisor.NetworkName {
		return
	}
	var p Pair
	err := json.NewDecoder(os.Stdin).Decode(&p)
	if err == nil {
		err = Connect(p, namespace)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Connect creates a pair of links, one of which is eth0 of a network namespace. It
// replaces one that an earlier boot left.
func Connect(p Pair, ns int) error {
	host, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("ask the kernel for links: %w", err)
	}
	defer host.Close()
	inside, err := netlink.NewHandleAt(netns.NsHandle(ns), unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("enter the network namespace of the container: %w", err)
	}
	defer inside.Close()
	bridge, err := host.LinkByName(p.Bridge)
	if err != nil {
		return fmt.Errorf("find bridge %s, which EnsureNetwork makes: %w", p.Bridge, err)
	}
	if err := Disconnect(p.Host); err != nil {
		return err
	}
	hardware, err := net.ParseMAC(p.Hardware)
	if err != nil {
		return err
	}
	mtu := p.MTU
	if mtu == 0 {
		mtu = bridge.Attrs().MTU
	}
	veth := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: p.Host, MTU: mtu, MasterIndex: bridge.Attrs().Index},
		PeerName:  "eth0", PeerMTU: uint32(mtu), PeerHardwareAddr: hardware, PeerNamespace: netlink.NsFd(ns),
	}
	if err := host.LinkAdd(veth); err != nil {
		return fmt.Errorf("make link %s: %w", p.Host, err)
	}
	end, err := host.LinkByName(p.Host)
	if err == nil {
		err = host.LinkSetUp(end)
	}
	if err != nil {
		return fmt.Errorf("set link %s up: %w", p.Host, err)
	}
	return address(inside, p)
}

// address sets the addresses and routes of the container's end.
func address(h *netlink.Handle, p Pair) error {
	eth0, err := h.LinkByName("eth0")
	if err != nil {
		return fmt.Errorf("find eth0: %w", err)
	}
	if err := h.AddrAdd(eth0, &netlink.Addr{IPNet: ipNet(p.Address)}); err != nil {
		return fmt.Errorf("give eth0 address %s: %w", p.Address, err)
	}
	if err := h.LinkSetUp(eth0); err != nil {
		return fmt.Errorf("set eth0 up: %w", err)
	}
	routes := p.Routes
	if p.Gateway.IsValid() {
		routes = append([]Route{{netip.PrefixFrom(netip.IPv4Unspecified(), 0), p.Gateway}}, routes...)
	}
	for _, r := range routes {
		if err := h.RouteAdd(&netlink.Route{LinkIndex: eth0.Attrs().Index, Dst: ipNet(r.To), Gw: r.Via.AsSlice()}); err != nil {
			return fmt.Errorf("add a route to %s by %s: %w", r.To, r.Via, err)
		}
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// Disconnect removes a link of the host, with its other end. It may not exist.
func Disconnect(link string) error {
	l, err := netlink.LinkByName(link)
	if err == nil {
		err = netlink.LinkDel(l)
	}
	if missing(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove link %s: %w", link, err)
	}
	return nil
}

// missing reports whether a link does not exist: it may be removed with the
// namespace of its other end between two requests.
func missing(err error) bool {
	_, not := errors.AsType[netlink.LinkNotFoundError](err)
	return not || errors.Is(err, unix.ENODEV)
}
