// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/fnv"
	stdlog "log"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
)

const (
	// port is the same for every cluster where each has its own address.
	port = 6443
	// hosts is how many addresses 127.64.0.0/10 has.
	hosts = 1 << 22
	// probes is how many addresses are tried before giving up.
	probes = 64
)

// Listeners give each server an address on loopback, and tell by it whom a
// connection is for. On Linux that is an address of its own in 127.64.0.0/10,
// elsewhere a port of its own. One listener a cluster, rather than one for all
// on every address, leaves port 6443 of other addresses to others.
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
		ReadHeaderTimeout: 30 * time.Second,
		IdleTimeout:       5 * time.Minute,
		ErrorLog:          stdlog.New(handshakes{log}, "", 0),
	}
	return l
}

// Open starts to serve a cluster. Its address follows from uid, unless it had
// one before: then want names it, as host:port, and no other is taken.
func (l *Listeners) Open(uid, want string, s *Server) (netip.AddrPort, error) {
	ln, err := l.listen(uid, want)
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
	l.serving.Go(func() {
		if err := l.http.ServeTLS(own, "", ""); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			l.log.Error(err, "Serving a simulated cluster", "cluster", s.name, "address", addr.String())
		}
	})
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
	return err
}

func (l *Listeners) listen(uid, want string) (net.Listener, error) {
	var config net.ListenConfig
	ctx := context.Background()
	if want != "" {
		return config.Listen(ctx, "tcp", want)
	}
	if runtime.GOOS != "linux" {
		return config.Listen(ctx, "tcp", "127.0.0.1:0")
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(uid)) // never fails
	for i := range uint32(probes) {
		ln, err := config.Listen(ctx, "tcp", address(h.Sum32()+i).String())
		if !errors.Is(err, syscall.EADDRINUSE) {
			return ln, err
		}
	}
	return nil, fmt.Errorf("%d addresses from %s on are in use", probes, address(h.Sum32()))
}

// address is the nth in 127.64.0.0/10, which begins again after the last.
func address(n uint32) netip.AddrPort {
	n %= hosts
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 64 + byte(n>>16), byte(n >> 8), byte(n)}), port)
}

// find returns whom a connection to a local address is for, or nil.
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

// Accept implements net.Listener. A server that refuses has its connections
// closed before anything is said.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.server.answer() == Refuse {
			_ = c.Close() // as meant
			continue
		}
		return l.server.adopt(c), nil
	}
}

// adopt remembers a connection until it is closed.
func (s *Server) adopt(c net.Conn) net.Conn {
	own := &conn{Conn: c, server: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = struct{}{}
	return own
}

// conn is a connection that its server forgets when it is closed.
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
