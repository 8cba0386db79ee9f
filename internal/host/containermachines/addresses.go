// SPDX-License-Identifier: Apache-2.0

package containermachines

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// subnetPools are what subnets are taken from, best first: private addresses that neither
// the usual networks of Pods and Services nor those of container engines have.
var subnetPools = []netip.Prefix{
	netip.MustParsePrefix("10.208.0.0/12"),
	netip.MustParsePrefix("172.28.0.0/14"),
	netip.MustParsePrefix("192.168.192.0/18"),
}

// subnetBits is the length of a subnet: 4093 machines.
const subnetBits = 20

// ErrNoSubnet means that the networks of the host leave no room.
var ErrNoSubnet = errors.New("the networks of this host leave no free subnet in 10.208.0.0/12, 172.28.0.0/14 and 192.168.192.0/18: free a range of 4096 addresses in one of them")

// freeSubnet is the first that overlaps with nothing that is taken.
func freeSubnet(taken []netip.Prefix) (netip.Prefix, error) {
	for _, pool := range subnetPools {
		at := pool.Addr()
		for pool.Contains(at) {
			subnet := netip.PrefixFrom(at, subnetBits)
			if !overlaps(subnet, taken) {
				return subnet, nil
			}
			at = plus(at, 1<<(32-subnetBits))
		}
	}
	return netip.Prefix{}, ErrNoSubnet
}

// inPool reports whether a host might have given an address.
func inPool(a netip.Addr) bool {
	for _, pool := range subnetPools {
		if pool.Contains(a) {
			return true
		}
	}
	return false
}

func overlaps(p netip.Prefix, taken []netip.Prefix) bool {
	for _, t := range taken {
		if p.Overlaps(t) {
			return true
		}
	}
	return false
}

// gatewayOf is the address of the host in a subnet: the first.
func gatewayOf(subnet netip.Prefix) netip.Addr { return plus(subnet.Masked().Addr(), 1) }

// freeAddress is the first address of a subnet for a machine that is not taken.
func freeAddress(subnet netip.Prefix, taken map[netip.Addr]bool) (netip.Addr, error) {
	gateway := gatewayOf(subnet)
	// The last is for broadcasts.
	for a := gateway.Next(); subnet.Contains(a.Next()); a = a.Next() {
		if !taken[a] {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("no address is free in %s: delete a machine that is not needed", subnet)
}

func plus(a netip.Addr, n uint32) netip.Addr {
	raw := a.As4()
	binary.BigEndian.PutUint32(raw[:], binary.BigEndian.Uint32(raw[:])+n)
	return netip.AddrFrom4(raw)
}

// Routes are the destinations in the kernel's table of routes, /proc/net/route,
// except the default one. Lines that cannot be read are left out.
func Routes(table string) (to []netip.Prefix) {
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 8 {
			continue
		}
		destination, ok := word(fields[1])
		mask, isMask := word(fields[7])
		if !ok || !isMask || mask == 0 {
			continue
		}
		length := 0
		for m := mask; m&(1<<31) != 0; m <<= 1 {
			length++
		}
		var raw [4]byte
		binary.BigEndian.PutUint32(raw[:], destination)
		to = append(to, netip.PrefixFrom(netip.AddrFrom4(raw), length).Masked())
	}
	return to
}

// word reads what the kernel prints of a number in the order of the network.
func word(text string) (uint32, bool) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != 4 {
		return 0, false
	}
	return binary.LittleEndian.Uint32(raw), true
}
