// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// TestExpressionsAreThoseOfNftables compares the expressions of rules with those of a
// library for nftables, which is too large for a holder.
func TestExpressionsAreThoseOfNftables(t *testing.T) {
	t.Parallel()
	network, mask := []byte{127, 64, 0, 0}, []byte{255, 192, 0, 0}
	masked := &expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: mask, Xor: make([]byte, 4)}
	equal := func(b ...byte) expr.Any { return &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: b} }
	header := func(base expr.PayloadBase, at, size uint32) expr.Any {
		return &expr.Payload{OperationType: expr.PayloadLoad, DestRegister: 1, Base: base, Offset: at, Len: size}
	}
	for name, tc := range map[string]struct {
		got  []byte
		want []expr.Any
	}{
		"from an address":     {from(Relay[:]), []expr.Any{header(expr.PayloadBaseNetworkHeader, 12, 4), equal(127, 99, 99, 99)}},
		"to a network":        {to(network, mask), []expr.Any{header(expr.PayloadBaseNetworkHeader, 16, 4), masked, equal(network...)}},
		"by TCP":              {protocol(unix.IPPROTO_TCP), []expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, equal(6)}},
		"to a port":           {port(6443), []expr.Any{header(expr.PayloadBaseTransportHeader, 2, 2), equal(0x19, 0x2b)}},
		"accepted":            {accept(), []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}},
		"a value in register": {immediate(second, []byte{0, 53}), []expr.Any{&expr.Immediate{Register: 2, Data: []byte{0, 53}}}},
		"translated":          {translate(), []expr.Any{&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1, RegProtoMin: 2}}},
	} {
		var want []byte
		for _, e := range tc.want {
			b, err := expr.Marshal(unix.NFPROTO_IPV4, e)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, nested(unix.NFTA_LIST_ELEM, b)...)
		}
		if !bytes.Equal(tc.got, want) {
			t.Errorf("%s:\ngot  %x\nwant %x", name, tc.got, want)
		}
	}
}

// TestAttributesAreThoseOfNetlink compares attributes of all lengths with those of a
// library for netlink: they are padded to four bytes, which their length does not count.
func TestAttributesAreThoseOfNetlink(t *testing.T) {
	t.Parallel()
	for n := range 10 {
		value := bytes.Repeat([]byte{7}, n)
		got, want := attribute(unix.IFA_LOCAL, value), nl.NewRtAttr(unix.IFA_LOCAL, value).Serialize()
		if !bytes.Equal(got, want) {
			t.Errorf("%d bytes: got %x, want %x", n, got, want)
		}
	}
}

// TestDoReturnsErrorsOfKernel: the kernel answers each request of a message.
func TestDoReturnsErrorsOfKernel(t *testing.T) {
	t.Parallel()
	c, err := dial(unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(c.fd) }() // of the last one
	link := func(index uint32) *message {
		return request(unix.RTM_GETLINK, unix.NLM_F_ACK).raw([]byte{unix.AF_UNSPEC, 0, 0, 0}, u32(index), u32(0), u32(0))
	}
	for name, tc := range map[string]struct {
		messages []*message
		request  string
		want     error
	}{
		"one that exists":       {messages: []*message{link(1)}},
		"one that does not":     {messages: []*message{link(1 << 30)}, request: "request 1: ", want: unix.ENODEV},
		"the second of three":   {messages: []*message{link(1), link(1 << 30), link(1)}, request: "request 2: ", want: unix.ENODEV},
		"an unknown request":    {messages: []*message{request(unix.RTM_MAX+1, unix.NLM_F_ACK)}, request: "request 1: ", want: unix.EOPNOTSUPP},
		"one without an answer": {messages: []*message{request(unix.NLMSG_NOOP, 0)}},
	} {
		err := c.do(tc.messages...)
		if !errors.Is(err, tc.want) || err != nil && !strings.HasPrefix(err.Error(), tc.request) {
			t.Errorf("%s: got %v, want %s%v", name, err, tc.request, tc.want)
		}
		_ = unix.Close(c.fd) // answers to later requests of a message that failed may be left
		if c, err = dial(unix.NETLINK_ROUTE); err != nil {
			t.Fatal(err)
		}
	}
}
