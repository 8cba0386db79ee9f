// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"errors"
	"io"
	"net/netip"
	"os"
	"syscall"
)

// candidate is the nth address of those for clusters: in 127.64.0.0/10,
// without those that end in 0 or 255.
func candidate(n uint32) netip.AddrPort {
	n %= 64 * 256 * 254
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 64 + byte(n/254>>8), byte(n / 254), byte(n%254 + 1)}), apiServerPort)
}

// hold binds a socket that never listens. Binding it alone needs the address
// to be free; allowing reuse afterwards lets our own listener in beside it.
// Again says that the address was ours before: then connections of that time,
// which the kernel still remembers, are no obstacle.
func hold(addr netip.AddrPort, again bool) (io.Closer, netip.AddrPort, error) {
	family, to := syscall.AF_INET, syscall.Sockaddr(&syscall.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().Unmap().As4()})
	if addr.Addr().Is6() && !addr.Addr().Is4In6() {
		family, to = syscall.AF_INET6, &syscall.SockaddrInet6{Port: int(addr.Port()), Addr: addr.Addr().As16()}
	}
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, addr, os.NewSyscallError("socket", err)
	}
	reuse := func() error { return syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1) }
	if again {
		err = reuse()
	}
	if err == nil {
		err = os.NewSyscallError("bind", syscall.Bind(fd, to))
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
