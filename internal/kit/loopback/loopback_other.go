// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package loopback

import (
	"io"
	"net"
	"net/netip"
)

// Candidate leaves the choice of a port to the system: only Linux has all of
// 127.0.0.0/8 without asking for it.
func Candidate(uint32) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)
}

// Choice describes Allowed.
const Choice = "127.0.0.1 and a port from 1024"

// Allowed reports whether an address is one that the system can have chosen.
func Allowed(at netip.AddrPort) bool {
	return at.Addr() == netip.AddrFrom4([4]byte{127, 0, 0, 1}) && at.Port() >= 1024
}

// Hold checks that the address is free and releases it: on systems other than Linux
// nothing keeps other processes from it until the cluster listens.
func Hold(addr netip.AddrPort, _ bool) (io.Closer, netip.AddrPort, error) {
	l, err := net.Listen("tcp", addr.String())
	if err != nil {
		return nil, addr, err
	}
	at, err := netip.ParseAddrPort(l.Addr().String())
	if err != nil {
		return nil, addr, err
	}
	return nothing{}, at, l.Close()
}

type nothing struct{}

func (nothing) Close() error { return nil }
