// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/capstan-dev/capstan/internal/kit/connlistener"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// headerTimeout is how long a client may take to send its request headers, or to
// complete the TLS handshake.
const headerTimeout = 30 * time.Second

// Listeners serve each server on a separate address, and find by it the server of a
// connection. One listener per cluster, rather than one for all on every address,
// leaves the same port of other addresses to other programs.
type Listeners struct {
	log     logr.Logger
	http    *http.Server
	serving sync.WaitGroup

	mu     sync.RWMutex // guards all below
	open   map[string]*listener
	closed bool
}

// listener is one server's.
type listener struct {
	net.Listener
	server *Server
}

// NewListeners returns a set without any.
func NewListeners(log logr.Logger) *Listeners {
	l := &Listeners{log: log, open: map[string]*listener{}}
	l.http = &http.Server{
		Handler:           http.HandlerFunc(l.dispatch),
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: l.configFor},
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       5 * time.Minute,
		ErrorLog:          stdlog.New(handshakes{log}, "", 0),
	}
	return l
}

// Open starts to serve a cluster at an address, and returns the address with the
// port that the system chose if at has none.
func (l *Listeners) Open(at netip.AddrPort, s *Server) (netip.AddrPort, error) {
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", at.String())
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("listen for cluster %s: %w", s.name, err)
	}
	addr, err := netip.ParseAddrPort(ln.Addr().String())
	if err != nil {
		return netip.AddrPort{}, errors.Join(err, ln.Close())
	}
	own := &listener{Listener: ln, server: s}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return netip.AddrPort{}, errors.Join(net.ErrClosed, ln.Close())
	}
	l.open[addr.String()] = own
	l.serving.Go(recovery.Func(s.ctx(), func() {
		if err := l.http.ServeTLS(own, "", ""); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			l.log.Error(err, "Serving a simulated cluster", "cluster", s.name, "address", addr.String())
		}
	}))
	return addr, nil
}

// Shut stops serving an address and drops its connections. It is nothing to
// shut what is not open.
func (l *Listeners) Shut(addr netip.AddrPort) {
	l.mu.Lock()
	own := l.open[addr.String()]
	delete(l.open, addr.String())
	l.mu.Unlock()
	if own == nil {
		return
	}
	_ = own.Close() // what is closed twice is closed
	own.server.mu.Lock()
	defer own.server.mu.Unlock()
	own.server.drop()
}

// Close stops serving all.
func (l *Listeners) Close() error {
	l.mu.Lock()
	l.closed = true
	clear(l.open)
	l.mu.Unlock()
	err := l.http.Close()
	l.serving.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil // Shut was faster
	}
	return err
}

// Handler returns the server at an address, for requests of this process. It is nil
// if a connection would fail before a request is read.
func (l *Listeners) Handler(addr string) http.Handler {
	l.mu.RLock()
	own := l.open[addr]
	l.mu.RUnlock()
	if own == nil || own.server.answer().Has(Refuse) {
		return nil
	}
	if _, err := own.server.tlsConfig(); err != nil {
		return nil
	}
	return own.server
}

// find returns the server for connections to a local address, or nil.
func (l *Listeners) find(local net.Addr) *Server {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if own := l.open[local.String()]; own != nil {
		return own.server
	}
	return nil
}

func (l *Listeners) configFor(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	s := l.find(hello.Conn.LocalAddr())
	if s == nil {
		return nil, errors.New("there is no cluster at this address")
	}
	return s.tlsConfig()
}

func (l *Listeners) dispatch(w http.ResponseWriter, r *http.Request) {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	s := l.find(local)
	if s == nil {
		panic(http.ErrAbortHandler)
	}
	s.ServeHTTP(w, r)
}

// Accept implements net.Listener. Connections of a server that refuses are closed
// before any data is sent.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.server.answer().Has(Refuse) {
			_ = c.Close() // as meant
			continue
		}
		return l.server.adopt(c), nil
	}
}

// ServeStream answers on one connection, such as that of a port-forward, as the API
// server of one machine does: with a separate certificate, and as long as that API
// server runs, until the client has disconnected.
func (s *Server) ServeStream(stream io.ReadWriteCloser, cert tls.Certificate, runs func() bool) error {
	config, err := s.tlsConfig()
	if err != nil {
		return errors.Join(err, stream.Close())
	}
	config = config.Clone()
	config.Certificates = []tls.Certificate{cert}
	near, far := net.Pipe() // for HTTP needs deadlines, which a stream has not
	var copying sync.WaitGroup
	defer copying.Wait()
	between := func(to io.WriteCloser, from io.Reader) {
		_, _ = io.Copy(to, from) // the side that closed does not need the error
		_ = to.Close()
	}
	copying.Go(recovery.Func(s.ctx(), func() { between(far, stream) }))
	copying.Go(recovery.Func(s.ctx(), func() { between(stream, far) }))
	h := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !runs() {
				panic(http.ErrAbortHandler)
			}
			s.ServeHTTP(w, r)
		}),
		TLSConfig: config, ReadHeaderTimeout: headerTimeout, ErrorLog: stdlog.New(handshakes{s.log}, "", 0),
	}
	err = h.ServeTLS(connlistener.Listen(near), "", "")
	if err = errors.Join(err, h.Close(), near.Close()); errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// adopt tracks a connection until it is closed.
func (s *Server) adopt(c net.Conn) net.Conn {
	own := &conn{Conn: c, server: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = struct{}{}
	return own
}

// conn is a connection that its server stops tracking when it is closed.
type conn struct {
	net.Conn
	server *Server
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.server.mu.Lock()
	delete(c.server.conns, c.Conn)
	c.server.mu.Unlock()
	return c.Conn.Close()
}

// handshakes logs what the HTTP server complains of, mostly clients that left.
type handshakes struct{ log logr.Logger }

func (h handshakes) Write(line []byte) (int, error) {
	h.log.V(4).Info("HTTP server of simulated clusters", "message", strings.TrimSpace(string(line)))
	return len(line), nil
}
