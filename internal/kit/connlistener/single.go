// SPDX-License-Identifier: Apache-2.0

package connlistener

import (
	"io"
	"net"
	"sync"
)

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
