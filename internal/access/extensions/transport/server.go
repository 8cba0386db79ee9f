// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/internal/kit/certs"
)

const (
	// connectTimeout bounds a new connection with its handshake, so that none is left
	// behind by a call that ended before.
	connectTimeout = 10 * time.Second
	idleTimeout    = 90 * time.Second // that of Go's default transport
	maxIdleConns   = 32               // more connections after a burst are closed
	maxHeaderBytes = 64 << 10         // responses have their content in the body
	// A silent HTTP/2 connection is checked with a ping: all calls share it, and would
	// otherwise continue to wait for a machine that no longer exists.
	silence     = 15 * time.Second
	pingTimeout = 10 * time.Second
	// streamBytes is how much of one response is buffered.
	streamBytes = 1 << 20
	// maxTargets is the most URLs that are kept; there is one per handler.
	maxTargets = 1024
)

// server is one endpoint: its connections, its waiting calls, its state.
type server struct {
	host      string
	service   *Service // nil: a URL
	services  Resolver // nil: DNS
	dial      func(ctx context.Context, network, address string) (net.Conn, error)
	bundled   bool // there is a CA bundle
	base      *url.URL
	limit     int64
	cert      *certs.Files
	certFile  string
	clock     clock.PassiveClock
	transport *http.Transport
	tls       *tls.Config
	gate      gate
	slots     chan struct{} // has an element for each call in flight
	asked     atomic.Bool   // it requested a client certificate, got none, and has not responded yet
	answered  atomic.Bool   // so the certificate it requested is not needed
	connected atomic.Int64  // completed handshakes

	lifetime context.Context // ends dials and waits when the server is closed
	cancel   context.CancelFunc
	down     sync.Once
	gone     func(*server)
	done     chan struct{} // closed once nothing is left

	// mu guards the fields below.
	mu        sync.Mutex
	targets   map[string]*url.URL
	conns     map[*conn]struct{}
	calls     int // waiting or in flight
	used      time.Time
	forgotten bool
}

func newServer(e Endpoint, o Options, cert *certs.Files) (*server, error) {
	base, err := e.base()
	if err != nil {
		return nil, err
	}
	roots, err := e.roots()
	if err != nil {
		return nil, err
	}
	s := &server{
		host: e.Host(), bundled: roots != nil, base: base, services: o.Services, dial: o.Dial, limit: o.MaxResponseBytes,
		cert: cert, certFile: o.ClientCertFile, clock: o.Clock, gate: gate{clock: o.Clock},
		slots: make(chan struct{}, MaxInFlight), done: make(chan struct{}), used: o.Clock.Now(),
		targets: map[string]*url.URL{}, conns: map[*conn]struct{}{},
	}
	if e.Service != nil {
		s.service = new(*e.Service)
	}
	s.lifetime, s.cancel = context.WithCancel(context.Background())
	s.tls = &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: base.Hostname(),
		NextProtos: []string{"h2", "http/1.1"}, GetClientCertificate: s.clientCertificate,
	}
	s.transport = &http.Transport{
		DialTLSContext: s.connect, ForceAttemptHTTP2: true, DisableCompression: true,
		MaxConnsPerHost: MaxInFlight, MaxIdleConnsPerHost: maxIdleConns, IdleConnTimeout: idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: pingTimeout, MaxReceiveBufferPerStream: streamBytes},
	}
	return s, nil
}

// clientCertificate is called when the server requests one.
func (s *server) clientCertificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if s.cert == nil {
		s.asked.Store(!s.answered.Load())
		return &tls.Certificate{}, nil
	}
	return s.cert.Certificate()
}

// target returns the URL of a call without its query; it must not be changed.
func (s *server) target(path string) *url.URL {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, ok := s.targets[path]
	if ok {
		return u
	}
	if len(s.targets) >= maxTargets {
		clear(s.targets)
	}
	u = s.base.JoinPath(path)
	if !strings.HasPrefix(u.Path, "/") {
		u = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/"}).JoinPath(u.EscapedPath())
	}
	s.targets[path] = u
	return u
}

// enter counts a new call; it returns false if the server has been forgotten.
func (s *server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forgotten {
		return false
	}
	s.calls++
	return true
}

func (s *server) leave() {
	s.mu.Lock()
	s.calls--
	s.used = s.clock.Now()
	last := s.forgotten && s.calls == 0
	s.mu.Unlock()
	if last {
		s.shutdown()
	}
}

// unused reports whether there has been no call for that long.
func (s *server) unused(since time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls == 0 && s.clock.Since(s.used) > since
}

// forget closes the server after the last call in progress.
func (s *server) forget() {
	s.mu.Lock()
	s.forgotten = true
	last := s.calls == 0
	s.mu.Unlock()
	if last {
		s.shutdown()
	}
}

// abort ends the calls in progress; the last of them closes the server.
func (s *server) abort() {
	s.sever()
	s.forget()
}

// sever closes all connections and prevents new ones.
func (s *server) sever() {
	s.cancel()
	s.mu.Lock()
	conns := s.conns
	s.conns = nil
	s.mu.Unlock()
	for c := range conns {
		_ = c.Conn.Close()
	}
}

func (s *server) shutdown() {
	s.down.Do(func() {
		s.sever()
		s.transport.CloseIdleConnections()
		s.gone(s)
		close(s.done)
	})
}

// connect opens one connection for net/http.
func (s *server) connect(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	defer context.AfterFunc(s.lifetime, cancel)()
	if s.service != nil && s.services != nil {
		var err error
		if address, err = s.services.Resolve(ctx, s.service.Namespace, s.service.Name, s.service.port()); err != nil {
			return nil, &connectError{fmt.Errorf("find Service %s/%s: %w", s.service.Namespace, s.service.Name, err)}
		}
	}
	raw, err := s.dial(ctx, network, address)
	if err != nil {
		return nil, &connectError{err}
	}
	c, err := s.track(raw)
	if err != nil {
		return nil, &connectError{err}
	}
	secured := tls.Client(c, s.tls)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		return nil, &handshakeError{err}
	}
	s.connected.Add(1)
	return secured, nil
}

// conn is a connection that can be closed from outside net/http.
type conn struct {
	net.Conn
	server *server
}

func (s *server) track(raw net.Conn) (*conn, error) {
	c := &conn{Conn: raw, server: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		return nil, errors.Join(ErrClosed, raw.Close())
	}
	s.conns[c] = struct{}{}
	return c, nil
}

func (c *conn) Close() error {
	c.server.mu.Lock()
	delete(c.server.conns, c)
	c.server.mu.Unlock()
	return c.Conn.Close()
}
