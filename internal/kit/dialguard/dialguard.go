// SPDX-License-Identifier: Apache-2.0

// Package dialguard refuses to dial addresses that belong to this host or to the
// metadata service of a cloud, for connections that other programs request. It checks
// an address after a name was resolved, when the socket is connected.
package dialguard

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
)

// reserved are addresses of this host and of metadata services of clouds, in addition
// to those that netip has a method for.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba Cloud
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure
	netip.MustParsePrefix("192.0.0.192/32"),     // Oracle Cloud
	netip.MustParsePrefix("255.255.255.255/32"), // broadcast
	netip.MustParsePrefix("fd00:ec2::/32"),      // Amazon EC2
	netip.MustParsePrefix("fd20:ce::254/128"),   // Google Cloud
}

// containing are prefixes of IPv6 addresses that contain an IPv4 address, with the
// position of its first byte: RFC 4291, RFC 6052, RFC 8215 and RFC 3056.
var containing = map[netip.Prefix]int{
	netip.MustParsePrefix("::/96"):          12,
	netip.MustParsePrefix("64:ff9b::/96"):   12,
	netip.MustParsePrefix("64:ff9b:1::/48"): 12,
	netip.MustParsePrefix("2002::/16"):      2,
}

// embedded returns the IPv4 address that an IPv6 address contains, else the address.
func embedded(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	for p, first := range containing {
		if b := a.As16(); p.Contains(a) {
			return netip.AddrFrom4([4]byte(b[first:]))
		}
	}
	return a
}

// IsReserved reports whether an address is one of loopback, link-local, multicast,
// broadcast or a metadata service, or no address at all.
func IsReserved(a netip.Addr) bool {
	a = embedded(a) // ::1 contains 0.0.0.1
	return !a.IsValid() || a.IsLoopback() || a.IsUnspecified() || a.IsLinkLocalUnicast() || a.IsMulticast() ||
		slices.ContainsFunc(reserved, func(p netip.Prefix) bool { return p.Contains(a) })
}

// RefusedError means that Pods cannot connect to an address: policy, not a failure.
type RefusedError struct {
	To  netip.AddrPort
	Why string
}

func (e *RefusedError) Error() string { return e.To.String() + " " + e.Why }

// CheckReserved returns a RefusedError if IsReserved reports an address.
func CheckReserved(to netip.AddrPort) error {
	switch a := embedded(to.Addr()); {
	case !IsReserved(a):
		return nil
	case a.IsLoopback():
		return &RefusedError{to, "is not for Pods: of the host's loopback they reach only the endpoints of simulated clusters of this plane, while their API servers run"}
	}
	return &RefusedError{to, "is not for Pods: loopback, link-local, multicast and metadata addresses are refused"}
}

// Guard decides where Pods can connect to. The zero value allows addresses of other
// hosts.
type Guard struct {
	// AllowHost allows the addresses of the host's interfaces as well, except reserved
	// ones.
	AllowHost bool

	mu       sync.Mutex // guards all below
	served   map[netip.AddrPort]bool
	loopback map[netip.AddrPort]bool
}

// Serve allows an address of the host's interfaces with one port, at which this process
// listens and authenticates clients. An unspecified address means all of them.
func (g *Guard) Serve(at netip.AddrPort) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.served == nil {
		g.served = map[netip.AddrPort]bool{}
	}
	g.served[at] = true
}

// ServeLoopback allows exactly one address of the host's loopback, of version 4, with one
// port, at which an API server of this process listens for clients of a cluster. Only the
// listener itself calls it: no field of an object allows an address.
func (g *Guard) ServeLoopback(at netip.AddrPort) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.loopback == nil {
		g.loopback = map[netip.AddrPort]bool{}
	}
	g.loopback[at] = true
}

// Stop reverts Serve and ServeLoopback.
func (g *Guard) Stop(at netip.AddrPort) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.served, at)
	delete(g.loopback, at)
}

// servesLoopback compares the address as it is: one of IPv6 that contains it, or an
// unspecified one that is served, makes no exception.
func (g *Guard) servesLoopback(at netip.AddrPort) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.loopback[at] && at.Addr().Is4() && at.Addr().IsLoopback()
}

func (g *Guard) serves(at netip.AddrPort) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.served[at] || g.served[netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port())] || g.served[netip.AddrPortFrom(netip.IPv6Unspecified(), at.Port())]
}

// Check returns an error, a RefusedError if that is policy, if Pods cannot connect to an
// address.
func (g *Guard) Check(to netip.AddrPort) error {
	if g.servesLoopback(to) {
		return nil
	}
	if err := CheckReserved(to); err != nil {
		return err
	}
	to = netip.AddrPortFrom(embedded(to.Addr()), to.Port())
	if g.AllowHost || g.serves(to) {
		return nil
	}
	interfaces, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("list the addresses of this host: %w", err)
	}
	for _, i := range interfaces {
		own, err := netip.ParsePrefix(i.String())
		if err == nil && own.Addr().Unmap() == to.Addr() {
			return &RefusedError{to, "is an address of this host: start the plane with --pods-reach-host to let Pods connect to it"}
		}
	}
	return nil
}

// Control is Check for net.Dialer.ControlContext.
func (g *Guard) Control(_ context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return g.Check(to)
}
