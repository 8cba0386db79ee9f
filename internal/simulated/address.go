// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/netip"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/loopback"
	"github.com/capstan-dev/capstan/internal/simulated/statedir"
)

// probes is how many addresses are tried for a new cluster.
const probes = 64

// place is an address reserved for a cluster. While nothing listens on it,
// connections are refused, and no other process can bind it.
type place struct {
	addr netip.AddrPort
	host string // how clients name it
	hold io.Closer
}

func (p *place) close() error { return p.hold.Close() }

func (p *place) endpoint() clusterv1.APIEndpoint {
	return clusterv1.APIEndpoint{Host: p.host, Port: int32(p.addr.Port())}
}

// place chooses an address: the one that the cluster had, the one that is
// requested, or a free one.
func (b *Backend) place(r record, want clusterv1.APIEndpoint) (*place, error) {
	if r.Address.IsValid() {
		if !loopback.Allowed(r.Address) { // kept by a version that gave any address
			return nil, lost{fmt.Errorf("%s is not an address for simulated clusters: delete the Cluster and create it again without a controlPlaneEndpoint", r.Address)}
		}
		return b.holdAt(r, r.Address, r.Host)
	}
	if !want.IsZero() {
		addr, err := addressOf(want)
		if err != nil {
			return nil, err
		}
		p, err := b.holdAt(r, addr, want.Host)
		if errors.Is(err, statedir.ErrTaken) {
			return nil, fmt.Errorf("controlPlaneEndpoint %s belongs to another cluster", addr)
		}
		return p, err
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(r.UID)) // never fails
	var last error
	for i := range uint32(probes) {
		p, err := b.holdAt(r, loopback.Candidate(h.Sum32()+i), "")
		if err == nil {
			return p, nil
		}
		last = err
	}
	return nil, fmt.Errorf("none of %d addresses is free; if something listens at port %d of all addresses, as by --listen 0.0.0.0:%[2]d, have it use another port: %w", probes, loopback.Port, last)
}

func addressOf(e clusterv1.APIEndpoint) (netip.AddrPort, error) {
	port := cmp.Or(e.Port, loopback.Port)
	ip, err := netip.ParseAddr(e.Host)
	if at := netip.AddrPortFrom(ip, uint16(port)); err == nil && port == int32(at.Port()) && loopback.Allowed(at) {
		return at, nil
	}
	return netip.AddrPort{}, fmt.Errorf("controlPlaneEndpoint %s is not for simulated clusters: leave it empty to get one, or choose %s", e, loopback.Choice)
}

// holdAt gives the cluster an address, on this host for as long as it is kept and
// in this process now.
func (b *Backend) holdAt(r record, addr netip.AddrPort, host string) (*place, error) {
	known := addr.Port() != 0 // else the system chooses
	if known {
		if err := b.dir.Reserve(addr, string(r.UID)); err != nil {
			return nil, fmt.Errorf("reserve the address %s: %w", addr, err)
		}
	}
	h, at, err := loopback.Hold(addr, r.Address == addr)
	if err != nil {
		err = fmt.Errorf("hold the address %s: %w", addr, err)
		if known && r.Address != addr {
			err = errors.Join(err, b.dir.Free(addr, string(r.UID)))
		}
		return nil, err
	}
	if !known {
		if err := b.dir.Reserve(at, string(r.UID)); err != nil {
			return nil, errors.Join(fmt.Errorf("reserve the address %s: %w", at, err), h.Close())
		}
	}
	if host == "" {
		host = at.Addr().String()
	}
	return &place{addr: at, host: host, hold: h}, nil
}
