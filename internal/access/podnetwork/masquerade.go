// SPDX-License-Identifier: Apache-2.0

package podnetwork

import (
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// table is ours in netfilter; another program that has one of this name loses it.
const table = "capstan-network"

// What the kernel says of a packet: where its addresses lie in the header of each
// family, and how long they are.
var families = []struct {
	proto                  byte
	source, target, length uint32
	is4                    bool
	multicast              netip.Prefix
}{
	{unix.NFPROTO_IPV4, 12, 16, 4, true, netip.MustParsePrefix("224.0.0.0/4")},
	{unix.NFPROTO_IPV6, 8, 24, 16, false, netip.MustParsePrefix("ff00::/8")},
}

// SetMasquerade makes what Pods of this node send to others than Pods leave with the
// node's own address. The rules change in one transaction: no packet sees half of
// them.
func SetMasquerade(own, pods []netip.Prefix) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open netfilter: %w", err)
	}
	t := &nftables.Table{Family: nftables.TableFamilyINet, Name: table}
	c.AddTable(t) // so that there is one to delete
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

// masqueradeRules are, for each family: what goes to Pods or to a group is let be,
// and what else comes from Pods of this node is masqueraded.
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
				// Ports at random: two Pods may have chosen the same one.
				rules = append(rules, append(match(f.proto, f.source, f.length, from), &expr.Masq{FullyRandom: true}))
			}
		}
	}
	return rules
}

// match matches packets of a family that have an address of a prefix at an offset.
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
