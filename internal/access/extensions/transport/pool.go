// SPDX-License-Identifier: Apache-2.0

// Package transport makes one bounded HTTPS call at a time to servers of
// extensions: no redirect, no proxy, no answer without end, no call to a
// server that is known to fail. What the bytes mean is for others.
package transport

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/internal/kit/keypair"
)

const (
	// DefaultMaxResponseBytes bounds an answer when Options do not.
	DefaultMaxResponseBytes = 20 << 20
	// MaxInFlight is how many calls one server works on at the same time. The
	// others wait for their turn, each no longer than its context.
	MaxInFlight = 100
	// keepUnused is how long a server that is not called is remembered.
	keepUnused = time.Hour
)

// Options are what a Pool needs.
type Options struct {
	// ClientCertFile and ClientKeyFile are shown to servers that ask for a
	// certificate, and read again when they change. Both or neither.
	ClientCertFile, ClientKeyFile string
	// OnCertificateError is told when those files cannot be used any more and
	// what was in them before is shown; nil: nobody is.
	OnCertificateError func(error)
	// Services says where Services are; nil: at their DNS name.
	Services Resolver
	// Dial connects to an address; nil: as this host does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// MaxResponseBytes bounds an answer; 0: DefaultMaxResponseBytes.
	MaxResponseBytes int64
	// Clock is for backoff and the client certificate; nil: the real one.
	// Deadlines are those of the contexts, in real time.
	Clock clock.Clock
}

// Pool makes calls and keeps connections. It may be used by many goroutines.
type Pool struct {
	options Options
	cert    *keypair.Files // nil: no client certificate

	// mu guards what is below.
	mu      sync.RWMutex
	servers map[key]*server
	living  map[*server]struct{} // servers, and those forgotten but still busy
	closed  bool
}

// New makes a pool. It fails if the client certificate cannot be read.
func New(o Options) (*Pool, error) {
	if o.MaxResponseBytes == 0 {
		o.MaxResponseBytes = DefaultMaxResponseBytes
	}
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
	var opts []keypair.Option
	if o.OnCertificateError != nil {
		opts = append(opts, keypair.OnError(o.OnCertificateError))
	}
	cert, err := keypair.Open(o.ClientCertFile, o.ClientKeyFile, o.Clock, opts...)
	if err != nil {
		return nil, fmt.Errorf("open client certificate: %w", err)
	}
	p.cert = cert
	return p, nil
}

// Post sends body, which is JSON, to path below the endpoint's own path and
// returns the JSON it is answered. The context's deadline bounds all of it and
// is told to the server. The error is always an *Error. The bytes of body must
// not be changed afterwards either: a server that answers early may still be
// sent the rest.
func (p *Pool) Post(ctx context.Context, e Endpoint, path string, body []byte) ([]byte, error) {
	return p.call(ctx, e, path, body, false)
}

// Probe is a Post that is let through in backoff, to ask a server how it is. It
// waits for its turn as others do.
func (p *Pool) Probe(ctx context.Context, e Endpoint, path string, body []byte) ([]byte, error) {
	return p.call(ctx, e, path, body, true)
}

// Forget closes the connections to an endpoint once the calls under way are
// over, and forgets its failures.
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

// Close ends all calls under way, with Canceled, and closes all connections.
// It returns when the calls have. Later calls fail the same way.
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

// server is the one for an endpoint, made if need be.
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

// add keeps s, or sets it to the server that somebody else made meanwhile, or
// to nil in a closed pool. It returns the servers that nobody has called for
// long, which nobody may have told us to forget.
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
