// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/host/containerproc"
)

// Relay is the address inside a Pod at which the plane accepts outgoing connections
// and answers DNS. Connections of the plane itself from there are not redirected. The
// ports are below 1024 of an unusual loopback address, on which no container without
// capabilities can listen.
var Relay = [4]byte{127, 99, 99, 99}

const (
	// relayPort is the port for everything except DNS.
	relayPort = 1
	// dnsPort is the standard port of DNS.
	dnsPort = 53
	// backlog is how many connections wait while the plane is busy.
	backlog = 512
)

// network configures a network with only lo, on which the Pod has its address and
// all other addresses have a route. Outgoing packets are redirected to two sockets.
func network(p Pod) (tcp, udp int, err error) {
	routes, err := dial(unix.NETLINK_ROUTE)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = unix.Close(routes.fd) }() // all requests were answered
	lo := uint32(1)                              // it is 1 in every network namespace
	if err := containerproc.LoopbackUp(); err != nil {
		return 0, 0, fmt.Errorf("set lo up: %w", err)
	}
	add := request(unix.RTM_NEWADDR, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	add.raw([]byte{unix.AF_INET, 32, 0, unix.RT_SCOPE_UNIVERSE}, u32(lo))
	add.attribute(unix.IFA_LOCAL, p.Address[:])
	add.attribute(unix.IFA_ADDRESS, p.Address[:])
	if err := routes.do(add); err != nil {
		return 0, 0, fmt.Errorf("give lo the address %v: %w", p.Address, err)
	}
	// Without a route a connection would fail before the rules apply.
	route := request(unix.RTM_NEWROUTE, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	route.raw([]byte{unix.AF_INET, 0, 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_STATIC, unix.RT_SCOPE_LINK, unix.RTN_UNICAST}, u32(0))
	route.attribute(unix.RTA_OIF, u32(lo))
	route.attribute(unix.RTA_PREFSRC, p.Address[:])
	if err := routes.do(route); err != nil {
		return 0, 0, fmt.Errorf("route all addresses to lo: %w", err)
	}
	if err := redirect(p); err != nil {
		return 0, 0, fmt.Errorf("redirect what leaves (the kernel needs nf_tables and nft_nat): %w", err)
	}
	tcp, err = socket(unix.SOCK_STREAM, relayPort)
	if err == nil {
		err = os.NewSyscallError("listen", unix.Listen(tcp, backlog))
	}
	if err != nil {
		return 0, 0, fmt.Errorf("listen for what leaves: %w", err)
	}
	udp, err = socket(unix.SOCK_DGRAM, dnsPort)
	if err != nil {
		return 0, 0, fmt.Errorf("listen for DNS: %w", err)
	}
	return tcp, udp, nil
}

func socket(kind, port int) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return 0, os.NewSyscallError("socket", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: Relay}); err != nil {
		return 0, errors.Join(os.NewSyscallError("bind", err), unix.Close(fd))
	}
	return fd, nil
}

// conn is a netlink connection to the kernel.
type conn struct{ fd int }

func dial(family int) (conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, family)
	if err != nil {
		return conn{}, fmt.Errorf("open netlink: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return conn{}, errors.Join(fmt.Errorf("bind netlink: %w", err), unix.Close(fd))
	}
	return conn{fd}, nil
}

// do sends messages together and reads the requested answers.
func (c conn) do(messages ...*message) error {
	var all []byte
	answers := 0
	for i, m := range messages {
		binary.NativeEndian.PutUint32(m.b, uint32(len(m.b)))
		binary.NativeEndian.PutUint32(m.b[8:], uint32(i+1))
		if binary.NativeEndian.Uint16(m.b[6:])&unix.NLM_F_ACK != 0 {
			answers++
		}
		all = append(all, m.b...)
	}
	if err := unix.Sendto(c.fd, all, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("send", err)
	}
	buffer := make([]byte, 32<<10) // a page or two each, at most
	for answers > 0 {
		n, _, err := unix.Recvfrom(c.fd, buffer, 0)
		if err != nil {
			return os.NewSyscallError("receive", err)
		}
		for b := buffer[:n]; len(b) >= unix.SizeofNlMsghdr; {
			size := int(binary.NativeEndian.Uint32(b))
			if size < unix.SizeofNlMsghdr || size > len(b) {
				return errors.New("netlink: an answer is cut short")
			}
			if binary.NativeEndian.Uint16(b[4:]) == unix.NLMSG_ERROR && size >= unix.SizeofNlMsghdr+4 {
				if code := int32(binary.NativeEndian.Uint32(b[16:])); code != 0 {
					return fmt.Errorf("request %d: %w", binary.NativeEndian.Uint32(b[8:]), unix.Errno(-code))
				}
				answers--
			}
			b = b[min(aligned(size), len(b)):]
		}
	}
	return nil
}

func aligned(n int) int { return (n + 3) &^ 3 }

// message is a netlink message.
type message struct{ b []byte }

func request(kind, flags uint16) *message {
	m := &message{make([]byte, unix.SizeofNlMsghdr)} // its length and number are set when it is sent
	binary.NativeEndian.PutUint16(m.b[4:], kind)
	binary.NativeEndian.PutUint16(m.b[6:], unix.NLM_F_REQUEST|flags)
	return m
}

func (m *message) raw(parts ...[]byte) *message {
	for _, p := range parts {
		m.b = append(m.b, p...)
	}
	return m
}

func (m *message) attribute(kind uint16, value []byte) *message {
	m.b = append(m.b, attribute(kind, value)...)
	return m
}

func attribute(kind uint16, values ...[]byte) []byte {
	b := make([]byte, 4)
	for _, v := range values {
		b = append(b, v...)
	}
	binary.NativeEndian.PutUint16(b, uint16(len(b)))
	binary.NativeEndian.PutUint16(b[2:], kind)
	return append(b, make([]byte, aligned(len(b))-len(b))...)
}

// u32 returns a number in the kernel's byte order, and be32 in the network's.
func u32(n uint32) []byte  { return binary.NativeEndian.AppendUint32(nil, n) }
func be32(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
