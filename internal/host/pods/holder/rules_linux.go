// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"slices"

	"golang.org/x/sys/unix"
)

const (
	// table and the chains are the names of the rules in a Pod.
	table      = "pod"
	outChain   = "out"
	checkChain = "check"
	// natPriority is when the kernel translates destinations: before it filters at 0.
	natPriority = -100
	// Offsets in the headers of IP and of both TCP and UDP.
	sourceAt          = 12
	destinationAt     = 16
	destinationPortAt = 2
	// The policies for a packet that no rule decides, as the kernel's numbers.
	drops, accepts = 0, 1
	// The data registers of the rules, which use at most four bytes of each; register
	// 0 is NFT_REG_VERDICT.
	first, second = unix.NFT_REG_1, unix.NFT_REG_2
)

// redirect creates the rules of a Pod:
//
//	TCP to its Endpoints      to the plane's relay, unless it comes from there
//	to 127.0.0.0/8 or itself  stays
//	UDP and TCP to port 53    to the plane's resolver
//	other TCP                 to the plane's relay
//	all else                  is dropped: sending fails with EPERM
//
// DNS over TCP goes to the relay, too, which detects it by the port.
func redirect(p Pod) error {
	c, err := dial(unix.NETLINK_NETFILTER)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(c.fd) }() // everything was answered
	toRelay := func(port uint16) []byte {
		return slices.Concat(immediate(first, Relay[:]), immediate(second, []byte{byte(port >> 8), byte(port)}), translate())
	}
	return c.do(
		batch(unix.NFNL_MSG_BATCH_BEGIN),
		nft(unix.NFT_MSG_NEWTABLE).attribute(unix.NFTA_TABLE_NAME, text(table)).attribute(unix.NFTA_TABLE_FLAGS, be32(0)),
		chain(outChain, "nat", natPriority, accepts),
		chain(checkChain, "filter", 0, drops),
		rule(outChain, from(Relay[:]), accept()),
		rule(outChain, to(p.Endpoints[:], p.EndpointsMask[:]), protocol(unix.IPPROTO_TCP), port(p.EndpointsPort), toRelay(relayPort)),
		rule(outChain, to([]byte{127, 0, 0, 0}, []byte{255, 0, 0, 0}), accept()),
		rule(outChain, to(p.Address[:], []byte{255, 255, 255, 255}), accept()),
		rule(outChain, protocol(unix.IPPROTO_UDP), port(dnsPort), toRelay(dnsPort)),
		rule(outChain, protocol(unix.IPPROTO_TCP), toRelay(relayPort)),
		rule(checkChain, to([]byte{127, 0, 0, 0}, []byte{255, 0, 0, 0}), accept()),
		rule(checkChain, to(p.Address[:], []byte{255, 255, 255, 255}), accept()),
		batch(unix.NFNL_MSG_BATCH_END),
	)
}

// batch starts or ends a transaction of the kernel.
func batch(kind uint16) *message {
	return request(kind, 0).raw([]byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, unix.NFNL_SUBSYS_NFTABLES})
}

func nft(kind uint16) *message {
	return request(unix.NFNL_SUBSYS_NFTABLES<<8|kind, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_APPEND).raw([]byte{unix.NFPROTO_IPV4, unix.NFNETLINK_V0, 0, 0})
}

func text(s string) []byte { return append([]byte(s), 0) }

// nested sets the flag of attributes that contain others.
func nested(kind uint16, values ...[]byte) []byte {
	return attribute(kind|unix.NLA_F_NESTED, values...)
}

func chain(name, kind string, priority int32, policy uint32) *message {
	return nft(unix.NFT_MSG_NEWCHAIN).
		attribute(unix.NFTA_CHAIN_TABLE, text(table)).
		attribute(unix.NFTA_CHAIN_NAME, text(name)).
		raw(nested(unix.NFTA_CHAIN_HOOK, attribute(unix.NFTA_HOOK_HOOKNUM, be32(unix.NF_INET_LOCAL_OUT)), attribute(unix.NFTA_HOOK_PRIORITY, be32(uint32(priority))))).
		attribute(unix.NFTA_CHAIN_POLICY, be32(policy)).
		attribute(unix.NFTA_CHAIN_TYPE, text(kind))
}

func rule(chain string, expressions ...[]byte) *message {
	return nft(unix.NFT_MSG_NEWRULE).
		attribute(unix.NFTA_RULE_TABLE, text(table)).
		attribute(unix.NFTA_RULE_CHAIN, text(chain)).
		raw(nested(unix.NFTA_RULE_EXPRESSIONS, expressions...))
}

func expression(name string, data ...[]byte) []byte {
	return nested(unix.NFTA_LIST_ELEM, attribute(unix.NFTA_EXPR_NAME, text(name)), nested(unix.NFTA_EXPR_DATA, data...))
}

// value returns an attribute with plain bytes.
func value(kind uint16, b []byte) []byte { return nested(kind, attribute(unix.NFTA_DATA_VALUE, b)) }

func compare(b []byte) []byte {
	return expression("cmp", attribute(unix.NFTA_CMP_SREG, be32(first)), attribute(unix.NFTA_CMP_OP, be32(unix.NFT_CMP_EQ)), value(unix.NFTA_CMP_DATA, b))
}

func load(header uint32, at, size uint32) []byte {
	return expression("payload", attribute(unix.NFTA_PAYLOAD_DREG, be32(first)), attribute(unix.NFTA_PAYLOAD_BASE, be32(header)),
		attribute(unix.NFTA_PAYLOAD_OFFSET, be32(at)), attribute(unix.NFTA_PAYLOAD_LEN, be32(size)))
}

func from(address []byte) []byte {
	return slices.Concat(load(unix.NFT_PAYLOAD_NETWORK_HEADER, sourceAt, 4), compare(address))
}

func to(network, mask []byte) []byte {
	return slices.Concat(load(unix.NFT_PAYLOAD_NETWORK_HEADER, destinationAt, 4),
		expression("bitwise", attribute(unix.NFTA_BITWISE_SREG, be32(first)), attribute(unix.NFTA_BITWISE_DREG, be32(first)), attribute(unix.NFTA_BITWISE_LEN, be32(4)),
			value(unix.NFTA_BITWISE_MASK, mask), value(unix.NFTA_BITWISE_XOR, make([]byte, 4))),
		compare(network))
}

func protocol(p byte) []byte {
	return slices.Concat(expression("meta", attribute(unix.NFTA_META_KEY, be32(unix.NFT_META_L4PROTO)), attribute(unix.NFTA_META_DREG, be32(first))), compare([]byte{p}))
}

func port(p uint16) []byte {
	return slices.Concat(load(unix.NFT_PAYLOAD_TRANSPORT_HEADER, destinationPortAt, 2), compare([]byte{byte(p >> 8), byte(p)}))
}

func accept() []byte {
	verdict := nested(unix.NFTA_DATA_VERDICT, attribute(unix.NFTA_VERDICT_CODE, be32(accepts)))
	return expression("immediate", attribute(unix.NFTA_IMMEDIATE_DREG, be32(unix.NFT_REG_VERDICT)), nested(unix.NFTA_IMMEDIATE_DATA, verdict))
}

func immediate(register uint32, b []byte) []byte {
	return expression("immediate", attribute(unix.NFTA_IMMEDIATE_DREG, be32(register)), value(unix.NFTA_IMMEDIATE_DATA, b))
}

// translate changes the destination to that in the two registers.
func translate() []byte {
	return expression("nat", attribute(unix.NFTA_NAT_TYPE, be32(unix.NFT_NAT_DNAT)), attribute(unix.NFTA_NAT_FAMILY, be32(unix.NFPROTO_IPV4)),
		attribute(unix.NFTA_NAT_REG_ADDR_MIN, be32(first)), attribute(unix.NFTA_NAT_REG_PROTO_MIN, be32(second)))
}
