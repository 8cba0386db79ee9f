// SPDX-License-Identifier: Apache-2.0

package network

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Bridge is a bridge with an address of the host.
type Bridge struct {
	Name    string
	Table   string // of nftables
	Address netip.Prefix
	MTU     int // 0 is the kernel's choice
}

// Ensure creates a bridge, gives it its address, and lets its containers reach what
// the host reaches. Parts that exist are kept.
func (n Names) Ensure(b Bridge) error {
	taken, err := InUse()
	if err != nil {
		return err
	}
	if t, overlaps := Overlap(b.Address.Masked(), b.Name, taken); overlaps {
		return fmt.Errorf("use %s for a network: link %s of this host has %s: choose other addresses, or remove that link", b.Address.Masked(), t.By, t.Prefix)
	}
	link, err := netlink.LinkByName(b.Name)
	if missing(err) {
		made := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: b.Name, MTU: b.MTU, HardwareAddr: n.Hardware(b.Name)}}
		if err := netlink.LinkAdd(made); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("make bridge %s: %w", b.Name, err)
		}
		link, err = netlink.LinkByName(b.Name)
	}
	if err != nil {
		return fmt.Errorf("find bridge %s: %w", b.Name, err)
	}
	if link.Type() != "bridge" {
		return fmt.Errorf("make bridge %s: there is a link of that name that is none: remove it", b.Name)
	}
	if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: ipNet(b.Address)}); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("give bridge %s address %s: %w", b.Name, b.Address, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set bridge %s up: %w", b.Name, err)
	}
	return SetRules(b)
}

// Remove removes a bridge and its rules, which may not exist.
func (n Names) Remove(bridge, table string) error {
	return errors.Join(removeTable(table), Disconnect(bridge))
}

// InUse lists the addresses of this host's links, and those that are reached
// through them.
func InUse() ([]Taken, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	names := map[int]string{}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	var taken []Taken
	add := func(bits int, ip []byte, link int) {
		if addr, ok := netip.AddrFromSlice(ip); ok && addr.Is4() && !addr.IsLoopback() {
			taken = append(taken, Taken{netip.PrefixFrom(addr, bits).Masked(), names[link]})
		}
	}
	addrs, err := netlink.AddrList(nil, unix.AF_INET)
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	for _, a := range addrs {
		bits, _ := a.Mask.Size()
		add(bits, a.IP.To4(), a.LinkIndex)
	}
	routes, err := netlink.RouteList(nil, unix.AF_INET)
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	for _, r := range routes {
		if r.Dst != nil {
			bits, _ := r.Dst.Mask.Size()
			add(bits, r.Dst.IP.To4(), r.LinkIndex)
		}
	}
	return slices.Compact(taken), nil
}

// Links returns the links of the folder's containers and networks.
func (n Names) Links() (containers, networks []string, err error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, nil, fmt.Errorf("list links: %w", err)
	}
	for _, l := range links {
		container, network := n.OwnsLink(l.Attrs().Name)
		if container {
			containers = append(containers, l.Attrs().Name)
		}
		if network {
			networks = append(networks, l.Attrs().Name)
		}
	}
	return containers, networks, nil
}
