// SPDX-License-Identifier: Apache-2.0

// Package connlistener has listeners of connections that are already open: New also
// accepts connections that another listener accepted, and Listen accepts one connection.
package connlistener

import (
	"context"
	"io"
	"net"
	"sync"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// Listener accepts what a listener accepts, and what Serve is given.
type Listener struct {
	net.Listener
	handed chan net.Conn

	start    sync.Once
	accepted chan accepted

	close  sync.Once
	closed chan struct{}
	err    error // of closing
}

type accepted struct {
	conn net.Conn
	err  error
}

// New returns a listener that takes over ln. Its address is that of ln.
func New(ln net.Listener) *Listener {
	return &Listener{Listener: ln, handed: make(chan net.Conn), accepted: make(chan accepted), closed: make(chan struct{})}
}

// Accept implements net.Listener. Errors of the listener taken over are passed on;
// to wait after those is for the caller, as ever.
func (l *Listener) Accept() (net.Conn, error) {
	l.start.Do(func() { go recovery.Func(context.Background(), l.acceptAll)() })
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-l.handed:
		return c, nil
	case a := <-l.accepted:
		return a.conn, a.err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// acceptAll closes the listener at its end, which is a panic of the other listener if
// it is not Close.
func (l *Listener) acceptAll() {
	defer func() { _ = l.Close() }() // Close returns the error to its callers
	for {
		conn, err := l.Listener.Accept()
		select {
		case l.accepted <- accepted{conn, err}:
		case <-l.closed:
			if conn != nil {
				_ = conn.Close()
			}
			return
		}
	}
}

// Close implements net.Listener. A second call returns what the first did.
func (l *Listener) Close() error {
	l.close.Do(func() {
		close(l.closed)
		l.err = l.Listener.Close()
	})
	return l.err
}

// Serve has a connection accepted. It takes over c, and closes it if the listener
// was closed.
func (l *Listener) Serve(c net.Conn) {
	select {
	case l.handed <- c:
	case <-l.closed:
		_ = c.Close()
	}
}

// Listen returns a listener that accepts one connection, and then blocks until that
// is closed: a server that serves it runs exactly as long.
func Listen(conn net.Conn) net.Listener {
	return &listener{conn: conn, addr: conn.LocalAddr(), done: make(chan struct{})}
}

type listener struct {
	addr net.Addr
	done chan struct{}
	stop sync.Once

	mu   sync.Mutex // guards conn
	conn net.Conn
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	l.mu.Lock()
	conn := l.conn
	l.conn = nil
	l.mu.Unlock()
	if conn != nil {
		return &closing{Conn: conn, closed: func() { _ = l.Close() }}, nil
	}
	<-l.done
	return nil, io.EOF
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.stop.Do(func() { close(l.done) })
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.addr }

// closing is a connection that reports when it was closed.
type closing struct {
	net.Conn
	closed func()
}

// Close implements net.Conn.
func (c *closing) Close() error {
	defer c.closed()
	return c.Conn.Close()
}
