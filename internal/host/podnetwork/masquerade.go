// SPDX-License-Identifier: Apache-2.0

package podnetwork

import (
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// table is our netfilter table; a table of another program with this name is
// replaced.
const table = "capstan-network"

// The format of packets of each family: the offsets of the addresses in the header,
// and their length.
var families = []struct {
	proto                  byte
	source, target, length uint32
	is4                    bool
	multicast              netip.Prefix
}{
	{unix.NFPROTO_IPV4, 12, 16, 4, true, netip.MustParsePrefix("224.0.0.0/4")},
	{unix.NFPROTO_IPV6, 8, 24, 16, false, netip.MustParsePrefix("ff00::/8")},
}

// SetMasquerade masquerades packets from Pods of this node to other destinations
// than Pods with the node's own address. The rules change in one transaction: no
// packet meets only some of them.
func SetMasquerade(own, pods []netip.Prefix) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open netfilter: %w", err)
	}
	t := &nftables.Table{Family: nftables.TableFamilyINet, Name: table}
	c.AddTable(t) // so that the deletion succeeds
	c.DelTable(t)
	c.AddTable(t)
	chain := c.AddChain(&nftables.Chain{
		Name: "postrouting", Table: t, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
	})
	for _, rule := range masqueradeRules(own, pods) {
		c.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: rule})
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("set the rules of table %s: %w", table, err)
	}
	return nil
}

// masqueradeRules returns, for each family, rules that accept packets to Pods or to
// a multicast group, and masquerade others from Pods of this node.
func masqueradeRules(own, pods []netip.Prefix) (rules [][]expr.Any) {
	for _, f := range families {
		of := func(p netip.Prefix) bool { return p.Addr().Is4() == f.is4 }
		for _, to := range append([]netip.Prefix{f.multicast}, pods...) {
			if of(to) {
				rules = append(rules, append(match(f.proto, f.target, f.length, to), &expr.Verdict{Kind: expr.VerdictReturn}))
			}
		}
		for _, from := range own {
			if of(from) {
				// Random ports, since two Pods may have chosen the same one.
				rules = append(rules, append(match(f.proto, f.source, f.length, from), &expr.Masq{FullyRandom: true}))
			}
		}
	}
	return rules
}

// match matches packets of a family whose address at an offset is in a prefix.
func match(proto byte, offset, length uint32, p netip.Prefix) []expr.Any {
	mask := make([]byte, length)
	for i := range p.Bits() {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{proto}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: length},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: length, Mask: mask, Xor: make([]byte, length)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: p.Masked().Addr().AsSlice()},
	}
}
