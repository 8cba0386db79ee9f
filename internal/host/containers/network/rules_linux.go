// SPDX-License-Identifier: Apache-2.0

package network

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// SetRules replaces the whole table of a network: packets that leave it get the
// host's address, and only the host can open connections to it.
func SetRules(b Bridge) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("ask the kernel for nftables: %w", err)
	}
	// Adding it first lets the removal succeed in any case; the kernel applies all of
	// this as one change.
	c.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: b.Table})
	c.DelTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: b.Table})
	table := c.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: b.Table})

	nat := c.AddChain(&nftables.Chain{
		Name: "postrouting", Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
	})
	c.AddRule(&nftables.Rule{Table: table, Chain: nat, Exprs: slices.Concat(
		source(b), link(expr.MetaKeyOIFNAME, expr.CmpOpNeq, b.Name), action(&expr.Masq{}),
	)})

	accept, drop := &expr.Verdict{Kind: expr.VerdictAccept}, &expr.Verdict{Kind: expr.VerdictDrop}
	forward := c.AddChain(&nftables.Chain{
		Name: "forward", Table: table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter,
	})
	c.AddRule(&nftables.Rule{Table: table, Chain: forward, Exprs: slices.Concat(link(expr.MetaKeyIIFNAME, expr.CmpOpEq, b.Name), action(accept))})
	c.AddRule(&nftables.Rule{Table: table, Chain: forward, Exprs: slices.Concat(link(expr.MetaKeyOIFNAME, expr.CmpOpEq, b.Name), answers(), action(accept))})
	c.AddRule(&nftables.Rule{Table: table, Chain: forward, Exprs: slices.Concat(link(expr.MetaKeyOIFNAME, expr.CmpOpEq, b.Name), action(drop))})
	if err := c.Flush(); err != nil {
		return fmt.Errorf("make table %s of nftables: %w", b.Table, err)
	}
	return nil
}

func action(e expr.Any) []expr.Any { return []expr.Any{e} }

// link matches the name of the link on which a packet arrives or leaves.
func link(key expr.MetaKey, op expr.CmpOp, name string) []expr.Any {
	padded := make([]byte, unix.IFNAMSIZ)
	copy(padded, name)
	return []expr.Any{&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: op, Register: 1, Data: padded}}
}

// source matches packets from an address of the network.
func source(b Bridge) []expr.Any {
	const offset, size = 12, 4 // of the source address in an IPv4 header
	p := b.Address.Masked()
	mask := ipNet(p).Mask
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: size, Mask: mask, Xor: make([]byte, size)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: p.Addr().AsSlice()},
	}
}

// answers matches packets of connections that exist, and errors about them.
func answers() []expr.Any {
	states := binaryutil.NativeEndian.PutUint32(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED)
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: states, Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
	}
}

func removeTable(name string) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("ask the kernel for nftables: %w", err)
	}
	c.DelTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: name})
	if err := c.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove table %s of nftables: %w", name, err)
	}
	return nil
}

// Tables returns the networks of the folder that have a table.
func (n Names) Tables() ([]string, error) {
	c, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("ask the kernel for nftables: %w", err)
	}
	tables, err := c.ListTablesOfFamily(nftables.TableFamilyIPv4)
	if err != nil {
		return nil, fmt.Errorf("list tables of nftables: %w", err)
	}
	var networks []string
	for _, t := range tables {
		if network, ok := n.NetworkOfTable(t.Name); ok {
			networks = append(networks, network)
		}
	}
	return networks, nil
}
