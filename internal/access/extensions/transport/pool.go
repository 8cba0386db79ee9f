// SPDX-License-Identifier: Apache-2.0

// Package transport makes bounded HTTPS calls to servers of extensions: it follows
// no redirect, uses no proxy, limits the size of responses, and does not call a
// server that keeps failing. It does not interpret the content.
package transport

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/internal/kit/certs"
)

const (
	// DefaultMaxResponseBytes is the size limit of a response if Options have none.
	DefaultMaxResponseBytes = 20 << 20
	// MaxInFlight is how many calls to one server can be in flight. Others wait for
	// their turn, each no longer than its context.
	MaxInFlight = 100
	// keepUnused is how long the state of a server that is not called is kept.
	keepUnused = time.Hour
)

// Options configure a Pool.
type Options struct {
	// ClientCertFile and ClientKeyFile are presented to servers that request a
	// certificate, and read again when they change. Both or neither must be set.
	ClientCertFile, ClientKeyFile string
	// OnCertificateError is called when those files cannot be used any longer and
	// their previous content is presented; it may be nil.
	OnCertificateError func(error)
	// Services resolves Services; nil uses their DNS names.
	Services Resolver
	// Dial connects to an address; nil uses the network of this host.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// MaxResponseBytes is the size limit of a response; 0 is DefaultMaxResponseBytes.
	MaxResponseBytes int64
	// Clock is for backoff and the client certificate; nil is the real one. Deadlines
	// are those of the contexts, in real time.
	Clock clock.Clock
}

// Pool makes calls and keeps connections. It is safe for concurrent use.
type Pool struct {
	options Options
	cert    *certs.Files // nil: no client certificate

	// mu guards the fields below.
	mu      sync.RWMutex
	servers map[key]*server
	living  map[*server]struct{} // servers, and forgotten ones that still have calls
	closed  bool
}

// New returns a pool. It fails if the client certificate cannot be read.
func New(o Options) (*Pool, error) {
	o.MaxResponseBytes = cmp.Or(o.MaxResponseBytes, DefaultMaxResponseBytes)
	if o.Dial == nil {
		o.Dial = (&net.Dialer{}).DialContext
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	p := &Pool{options: o, servers: map[key]*server{}, living: map[*server]struct{}{}}
	if o.ClientCertFile == "" && o.ClientKeyFile == "" {
		return p, nil
	}
	var opts []certs.Option
	if o.OnCertificateError != nil {
		opts = append(opts, certs.OnError(o.OnCertificateError))
	}
	cert, err := certs.OpenFiles(o.ClientCertFile, o.ClientKeyFile, o.Clock, opts...)
	if err != nil {
		return nil, fmt.Errorf("open client certificate: %w", err)
	}
	p.cert = cert
	return p, nil
}

// Post sends body, which is JSON, to path below the endpoint's own path and returns
// the JSON response. The context's deadline bounds all of it and is sent to the
// server. The error is always an *Error. The bytes of body must not be changed
// afterwards either: if a server responds early, the rest may still be sent.
func (p *Pool) Post(ctx context.Context, e Endpoint, path string, body []byte) ([]byte, error) {
	return p.call(ctx, e, path, body, false)
}

// Probe is a Post that is admitted in backoff, to check whether a server works
// again. It waits for its turn like other calls.
func (p *Pool) Probe(ctx context.Context, e Endpoint, path string, body []byte) ([]byte, error) {
	return p.call(ctx, e, path, body, true)
}

// Forget closes the connections to an endpoint after the calls in progress, and
// clears its failures.
func (p *Pool) Forget(e Endpoint) {
	k := e.key()
	p.mu.Lock()
	s := p.servers[k]
	delete(p.servers, k)
	p.mu.Unlock()
	if s != nil {
		s.forget()
	}
}

// Close cancels all calls in progress and closes all connections. It returns when
// the calls have ended. Later calls fail with Canceled, too.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	clear(p.servers)
	all := slices.Collect(maps.Keys(p.living))
	p.mu.Unlock()
	for _, s := range all {
		s.abort()
	}
	for _, s := range all {
		<-s.done
	}
}

// server returns the server of an endpoint, creating it if needed.
func (p *Pool) server(e Endpoint) (*server, error) {
	k := e.key()
	p.mu.RLock()
	s := p.servers[k]
	p.mu.RUnlock()
	if s != nil {
		return s, nil
	}
	s, err := newServer(e, p.options, p.cert)
	if err != nil {
		return nil, &Error{Host: e.Host(), Reason: BadEndpoint, Err: err}
	}
	s.gone = p.drop
	unused := p.add(k, &s)
	for _, u := range unused {
		u.forget()
	}
	if s == nil {
		return nil, &Error{Host: e.Host(), Reason: Canceled, Err: ErrClosed}
	}
	return s, nil
}

// add stores s, or sets it to the server that another goroutine created meanwhile,
// or to nil in a closed pool. It returns the servers that have not been called for
// long, for which Forget may never have been called.
func (p *Pool) add(k key, s **server) (unused []*server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		*s = nil
		return nil
	}
	if made := p.servers[k]; made != nil {
		*s = made
		return nil
	}
	for k, old := range p.servers {
		if old.unused(keepUnused) {
			delete(p.servers, k)
			unused = append(unused, old)
		}
	}
	p.servers[k], p.living[*s] = *s, struct{}{}
	return unused
}

// drop is called when a server is closed.
func (p *Pool) drop(s *server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.living, s)
}
