// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/host/pods/holder"
	"github.com/capstan-dev/capstan/internal/kit/dialguard"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
	"github.com/capstan-dev/capstan/internal/kit/loopback"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

const (
	// dnsPort is the standard port of DNS.
	dnsPort = 53
	// questions is how many queries of a Pod are in progress at a time; further ones
	// are dropped, as datagrams may be.
	questions = 64
	// longestQuestion is the limit of DNS over UDP with EDNS.
	longestQuestion = 4096
	// dnsIdle closes a connection to the resolver without queries, and one whose
	// response takes longer than any client waits.
	dnsIdle = 30 * time.Second
	// exhausted is the wait until connections are accepted again after that failed for
	// lack of descriptors or memory.
	exhausted = 50 * time.Millisecond
)

// serve takes the sockets that the holder created, and serves them.
func (s *Sandbox) serve(fds []int) error {
	if len(fds) != 2 {
		closeAll(fds)
		return fmt.Errorf("the holder sent %d sockets, want 2: is the limit of open files reached (ulimit -n)?", len(fds))
	}
	tcp, udp := os.NewFile(uintptr(fds[0]), "tcp"), os.NewFile(uintptr(fds[1]), "udp")
	defer func() { _ = errors.Join(tcp.Close(), udp.Close()) }() // copies are used
	var err error
	if s.tcp, err = net.FileListener(tcp); err != nil {
		return err
	}
	if s.udp, err = net.FilePacketConn(udp); err != nil {
		return err
	}
	s.startVital(s.relay)
	s.startVital(s.resolve)
	return nil
}

// relay accepts outgoing connections of the Pod. Above the limit it resets them
// immediately, so that they use no resources.
func (s *Sandbox) relay() {
	open := make(chan struct{}, s.host.options.Connections)
	for {
		accepted, err := s.tcp.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			if lifecycle.Sleep(s.ctx, exhausted) != nil {
				return
			}
			continue
		}
		c := &Conn{TCPConn: accepted.(*net.TCPConn), free: func() {}, report: func(why string) { s.report(netip.AddrPort{}, why) }}
		select {
		case open <- struct{}{}:
			if err := s.host.descriptors.take(s, ofConnection); err != nil {
				<-open
				c.Refuse(err.Error())
				continue
			}
			// The Pod's connections end with it, regardless of their current owner.
			stop := context.AfterFunc(s.ctx, recovery.Func(s.ctx, func() { _ = c.TCPConn.Close() }))
			c.free = func() {
				stop()
				s.host.descriptors.give(s, ofConnection)
				<-open
			}
		default:
			c.Refuse(fmt.Sprintf("the Pod has %d connections open, the limit of a Pod: close some", s.host.options.Connections))
			continue
		}
		s.work.Go(func() {
			if err := recovery.Call(s.ctx, func() error { s.connect(c); return nil }); err != nil {
				c.Refuse("") // the panic is in the log
			}
		})
	}
}

// canBeEndpoint reports whether a simulated cluster of the host can listen at an address,
// which Network then checks.
func canBeEndpoint(to netip.AddrPort) bool {
	return loopback.Range.Contains(to.Addr()) && to.Port() == loopback.Port
}

// connect passes a connection to the server for its address.
func (s *Sandbox) connect(c *Conn) {
	to, err := destination(c.TCPConn)
	c.report = func(why string) { s.report(to, why) }
	c.own = func(ctx context.Context) (net.Conn, error) {
		return s.dial(ctx, netip.AddrFrom4(holder.Relay), to.Addr(), int(to.Port()))
	}
	reserved := dialguard.CheckReserved(to)
	switch {
	case err != nil, s.host.options.Network == nil:
		c.Refuse("")
	case reserved != nil && !canBeEndpoint(to):
		c.Refuse(reserved.Error())
	case to.Port() == dnsPort:
		s.resolveStream(c)
	default:
		s.host.options.Network.Connect(s.ctx, s.spec.Address, to, c)
	}
}

// report calls Spec.Refused, as often as that allows.
func (s *Sandbox) report(to netip.AddrPort, why string) {
	if s.spec.Refused != nil && s.refusals.first(to, time.Now()) {
		s.spec.Refused(why)
	}
}

// destination returns the original destination of a redirected connection.
func destination(c *net.TCPConn) (netip.AddrPort, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return netip.AddrPort{}, err
	}
	var to netip.AddrPort
	var inner error
	err = raw.Control(func(fd uintptr) {
		// The result is a sockaddr_in; this type is large enough.
		const original = 80 // SO_ORIGINAL_DST, which x/sys does not name
		var m *unix.IPv6Mreq
		if m, inner = unix.GetsockoptIPv6Mreq(int(fd), unix.IPPROTO_IP, original); inner == nil {
			to = netip.AddrPortFrom(netip.AddrFrom4([4]byte(m.Multiaddr[4:8])), binary.BigEndian.Uint16(m.Multiaddr[2:4]))
		}
	})
	return to, errors.Join(err, inner)
}

// resolve answers DNS over UDP.
func (s *Sandbox) resolve() {
	asking := make(chan struct{}, questions)
	b := make([]byte, longestQuestion)
	for {
		n, from, err := s.udp.ReadFrom(b)
		if errors.Is(err, net.ErrClosed) || s.ctx.Err() != nil {
			return
		}
		if err != nil || s.host.options.Network == nil {
			continue // this is also the error of an earlier response that was not received
		}
		select {
		case asking <- struct{}{}:
		default:
			continue
		}
		if s.host.descriptors.take(s, ofQuestion) != nil {
			<-asking
			continue
		}
		query := append([]byte(nil), b[:n]...)
		s.work.Go(recovery.Func(s.ctx, func() {
			defer func() {
				s.host.descriptors.give(s, ofQuestion)
				<-asking
			}()
			ctx, stop := context.WithTimeout(s.ctx, dnsIdle)
			defer stop()
			if reply, err := s.host.options.Network.Resolve(ctx, s.spec.Address, query); err == nil {
				_, _ = s.udp.WriteTo(reply, from) // the client may have exited
			}
		}))
	}
}

// resolveStream answers DNS over TCP: messages with a length prefix.
func (s *Sandbox) resolveStream(c *Conn) {
	defer func() { _ = c.Close() }() // everything was answered
	stop := context.AfterFunc(s.ctx, recovery.Func(s.ctx, func() { _ = c.Close() }))
	defer stop()
	for {
		if err := c.SetDeadline(time.Now().Add(dnsIdle)); err != nil {
			return
		}
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}
		ctx, done := context.WithTimeout(s.ctx, dnsIdle)
		reply, err := s.host.options.Network.Resolve(ctx, s.spec.Address, query)
		done()
		if err != nil || len(reply) > 0xffff {
			return
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return
		}
	}
}

// Dial connects to a TCP port of the Pod, at its address.
func (s *Sandbox) Dial(ctx context.Context, port int) (net.Conn, error) {
	c, err := s.dial(ctx, netip.Addr{}, s.spec.Address, port)
	if err != nil {
		return nil, fmt.Errorf("dial port %d of sandbox %s: %w", port, s.spec.Name, err)
	}
	return c, nil
}

// DialLoopback is Dial for servers on the Pod's loopback.
func (s *Sandbox) DialLoopback(ctx context.Context, port int) (net.Conn, error) {
	c, err := s.dial(ctx, netip.Addr{}, netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
	if err != nil {
		return nil, fmt.Errorf("dial port %d at the loopback of sandbox %s: %w", port, s.spec.Name, err)
	}
	return c, nil
}

// dial connects within the Pod from an address, the zero one for any.
func (s *Sandbox) dial(ctx context.Context, from, to netip.Addr, port int) (net.Conn, error) {
	if port < 1 || port > 0xffff {
		return nil, errors.New("want a port from 1 to 65535")
	}
	a, err := s.call(ctx, holder.Request{Kind: holder.MakeSocket}, nil)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(a.fds[0]), "connection")
	defer func() { _ = f.Close() }() // a copy is returned
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, recovery.Func(ctx, func() { _ = f.SetWriteDeadline(time.Unix(1, 0)) })) // a deadline that has passed
	defer stop()
	var failed error
	begun := false
	err = raw.Write(func(fd uintptr) bool {
		if !begun {
			begun = true
			if from.IsValid() {
				if failed = unix.Bind(int(fd), &unix.SockaddrInet4{Addr: from.As4()}); failed != nil {
					return true
				}
			}
			failed = unix.Connect(int(fd), &unix.SockaddrInet4{Port: port, Addr: to.As4()})
			return !errors.Is(failed, unix.EINPROGRESS)
		}
		code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		failed = err
		if code != 0 {
			failed = unix.Errno(code)
		}
		if _, err := unix.Getpeername(int(fd)); failed == nil && err != nil {
			return false // not yet
		}
		return true
	})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	if failed != nil {
		return nil, os.NewSyscallError("connect", failed)
	}
	return net.FileConn(f)
}
