// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"errors"
	"io"
	"net/netip"
	"os"
	"syscall"
)

// Range contains all addresses that are Allowed.
var Range = netip.MustParsePrefix("127.64.0.0/10")

// Candidate is the nth address of those for clusters: in 127.64.0.0/10,
// without those that end in 0 or 255.
func Candidate(n uint32) netip.AddrPort {
	n %= 64 * 256 * 254
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 64 + byte(n/254>>8), byte(n / 254), byte(n%254 + 1)}), Port)
}

// Choice describes Allowed.
const Choice = "an address from 127.64.0.1 to 127.127.255.254 that ends neither in 0 nor in 255, with the port 6443"

// Allowed reports whether an address is one that Candidate can give.
func Allowed(at netip.AddrPort) bool {
	if !at.Addr().Is4() || at.Port() != Port {
		return false
	}
	ip := at.Addr().As4()
	return ip[0] == 127 && ip[1] >= 64 && ip[1] < 128 && ip[3] != 0 && ip[3] != 255
}

// Hold binds a socket that never listens to an allowed address. Binding it alone
// requires the address to be free; allowing reuse afterwards lets our own listener
// bind it in addition. Again means that the address was ours before: then earlier
// connections, which the kernel still tracks, are no obstacle.
func Hold(addr netip.AddrPort, again bool) (io.Closer, netip.AddrPort, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, addr, os.NewSyscallError("socket", err)
	}
	reuse := func() error { return syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1) }
	if again {
		err = reuse()
	}
	if err == nil {
		err = os.NewSyscallError("bind", syscall.Bind(fd, &syscall.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}))
	}
	if err == nil {
		err = reuse()
	}
	if err != nil {
		return nil, addr, errors.Join(err, syscall.Close(fd))
	}
	return socket(fd), addr, nil
}

type socket int

func (s socket) Close() error { return syscall.Close(int(s)) }
