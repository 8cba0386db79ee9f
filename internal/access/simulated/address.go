// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/netip"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

const (
	// apiServerPort is the same for every cluster where each has its own
	// address.
	apiServerPort = 6443
	// probes is how many addresses are tried for a new cluster.
	probes = 64
)

// place is an address held for a cluster. While nobody listens on it,
// connections are refused, and no other process gets it.
type place struct {
	addr netip.AddrPort
	host string // how clients name it
	hold io.Closer
}

func (p *place) close() error { return p.hold.Close() }

func (p *place) endpoint() clusterv1.APIEndpoint {
	return clusterv1.APIEndpoint{Host: p.host, Port: int32(p.addr.Port())}
}

// place finds an address: the one the cluster has had, the one it wants, or a
// free one. Called with the backend's lock.
func (b *Backend) place(r record, want clusterv1.APIEndpoint) (*place, error) {
	if r.Address.IsValid() {
		return holdAt(r.Address, r.Host, true)
	}
	if want.Host != "" {
		ip, err := netip.ParseAddr(want.Host)
		if err != nil {
			return nil, fmt.Errorf("controlPlaneEndpoint.host %q is not an IP address: leave it empty, or give one of this host", want.Host)
		}
		port := uint16(apiServerPort)
		if want.Port != 0 {
			port = uint16(want.Port)
		}
		addr := netip.AddrPortFrom(ip, port)
		if b.taken[addr] {
			return nil, fmt.Errorf("controlPlaneEndpoint %s belongs to another cluster", addr)
		}
		return holdAt(addr, want.Host, false)
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(r.UID)) // never fails
	var errs []error
	for i := range uint32(probes) {
		addr := candidate(h.Sum32() + i)
		if b.taken[addr] {
			continue
		}
		p, err := holdAt(addr, "", false)
		if err == nil {
			return p, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("no free address from %s on: %w", candidate(h.Sum32()), errors.Join(errs...))
}

func holdAt(addr netip.AddrPort, host string, again bool) (*place, error) {
	h, at, err := hold(addr, again)
	if err != nil {
		return nil, fmt.Errorf("hold the address %s: %w", addr, err)
	}
	if host == "" {
		host = at.Addr().String()
	}
	return &place{addr: at, host: host, hold: h}, nil
}
