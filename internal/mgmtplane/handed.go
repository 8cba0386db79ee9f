// SPDX-License-Identifier: Apache-2.0

package mgmtplane

import (
	"net"
	"sync"
)

// handedListener accepts what its listener accepts, and connections that others
// have accepted already.
type handedListener struct {
	net.Listener
	handed chan net.Conn

	start    sync.Once
	accepted chan accepted

	close  sync.Once
	closed chan struct{}
}

type accepted struct {
	conn net.Conn
	err  error
}

func newHandedListener(ln net.Listener) *handedListener {
	return &handedListener{Listener: ln, handed: make(chan net.Conn), accepted: make(chan accepted), closed: make(chan struct{})}
}

// Accept implements net.Listener.
func (l *handedListener) Accept() (net.Conn, error) {
	l.start.Do(func() { go l.acceptAll() })
	select {
	case c := <-l.handed:
		return c, nil
	case a := <-l.accepted:
		return a.conn, a.err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// acceptAll passes on what the listener accepts, and its errors: to wait after
// those is for the caller of Accept, as ever.
func (l *handedListener) acceptAll() {
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

// Close implements net.Listener.
func (l *handedListener) Close() error {
	err := net.ErrClosed
	l.close.Do(func() {
		close(l.closed)
		err = l.Listener.Close()
	})
	return err
}

// serve has a connection accepted, or closes it if nothing is any more.
func (l *handedListener) serve(c net.Conn) {
	select {
	case l.handed <- c:
	case <-l.closed:
		_ = c.Close()
	}
}
