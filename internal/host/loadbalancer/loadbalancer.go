// SPDX-License-Identifier: Apache-2.0

// Package loadbalancer distributes TCP connections to one address over ready API
// servers. It does not read the connections: clients use TLS with the API server to
// which they are connected.
package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// Options configure a Balancer. The zero value is valid.
type Options struct {
	// Probe returns nil if a member is ready; nil is Ready.
	Probe func(ctx context.Context, member netip.AddrPort) error
	// Interval is the time between two probes of a member; 0 is 2 s. A member that is
	// not ready is probed ten times as often at first.
	Interval time.Duration
	// MaxConnections is the limit of concurrent connections; further ones are closed
	// immediately. 0 is 2000.
	MaxConnections int
	// Drain is how long the connections of a removed member may continue; 0 is 5 s.
	Drain time.Duration
	// Changed is called with the ready members, in order, when they change; it may be
	// nil. It must not call the Balancer.
	Changed func(ready []netip.AddrPort)
	// Log receives when members become ready or are no longer ready.
	Log logr.Logger
}

const (
	// defaultInterval detects a killed machine within two intervals, and costs a
	// member half a request each second.
	defaultInterval = 2 * time.Second
	// defaultMaxConnections is some ten for each machine of a large cluster on one
	// host, and uses twice as many of its file descriptors.
	defaultMaxConnections = 2000
	// defaultDrain is for requests in progress; watches are restarted anyway.
	defaultDrain = 5 * time.Second
	// dialTimeout is generous for a machine of this host.
	dialTimeout = 2 * time.Second
	// acceptPause is how long to wait after the host refused to accept, for instance
	// because it is out of file descriptors.
	acceptPause = 50 * time.Millisecond
	// failures is the number of failures in a row after which a member is not ready: a
	// single one may be accidental.
	failures = 2
)

// Balancer is one endpoint. Its methods are safe for concurrent use.
type Balancer struct {
	o        Options
	listener net.Listener
	ctx      context.Context // of all goroutines
	cancel   context.CancelFunc
	running  sync.WaitGroup
	slots    chan struct{} // one element for each connection

	mu      sync.Mutex // guards the fields below
	members map[netip.AddrPort]*member
	order   []netip.AddrPort // of members
	next    int              // index in order for the next connection
	closed  bool
}

// Listen starts listening at an address; port 0 selects a free one. There are no
// members yet: connections are closed.
func Listen(at netip.AddrPort, o Options) (*Balancer, error) {
	if o.Probe == nil {
		o.Probe = Ready
	}
	if o.Interval == 0 {
		o.Interval = defaultInterval
	}
	if o.MaxConnections == 0 {
		o.MaxConnections = defaultMaxConnections
	}
	if o.Drain == 0 {
		o.Drain = defaultDrain
	}
	listener, err := net.Listen("tcp", at.String())
	if err != nil {
		return nil, fmt.Errorf("listen for API servers at %s: %w", at, err)
	}
	b := &Balancer{o: o, listener: listener, slots: make(chan struct{}, o.MaxConnections), members: map[netip.AddrPort]*member{}}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.running.Go(recovery.Func(b.ctx, b.accept))
	return b, nil
}

// Addr returns the address on which it listens.
func (b *Balancer) Addr() netip.AddrPort {
	return b.listener.Addr().(*net.TCPAddr).AddrPort()
}

// Ready returns the ready members, in order.
func (b *Balancer) Ready() []netip.AddrPort {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ready()
}

// SetMembers replaces the members. A new member is probed immediately; a removed
// member gets no new connections, and its connections end when Options.Drain has
// passed.
func (b *Balancer) SetMembers(now []netip.AddrPort) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	for at, m := range b.members {
		if !slices.Contains(now, at) {
			delete(b.members, at)
			m.stopProbing()
			b.running.Go(recovery.Func(b.ctx, func() { m.drain(b.ctx, b.o.Drain) }))
		}
	}
	for _, at := range now {
		if b.members[at] != nil {
			continue
		}
		probing, stop := context.WithCancel(b.ctx)
		m := &member{at: at, stopProbing: stop, connections: map[net.Conn]bool{}}
		b.members[at] = m
		b.running.Go(recovery.Func(b.ctx, func() { b.probe(probing, m) }))
	}
	b.order = slices.SortedFunc(maps.Keys(b.members), netip.AddrPort.Compare)
	b.changed()
}

// Close stops listening. It waits until all connections have ended or ctx has
// ended, and then closes those that remain.
func (b *Balancer) Close(ctx context.Context) error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	members := slices.Collect(maps.Values(b.members))
	b.mu.Unlock()
	err := b.listener.Close()
	idle := make(chan struct{})
	go recovery.Func(ctx, func() {
		defer close(idle)
		for range cap(b.slots) { // all of them are free when there are no connections
			select {
			case b.slots <- struct{}{}:
			case <-b.ctx.Done():
				return
			}
		}
	})()
	select {
	case <-idle:
	case <-ctx.Done():
	}
	b.cancel()
	for _, m := range members {
		m.cut()
	}
	b.running.Wait()
	if err != nil {
		return fmt.Errorf("close the listener at %s: %w", b.Addr(), err)
	}
	return nil
}

// ready is Ready with the lock held.
func (b *Balancer) ready() (ready []netip.AddrPort) {
	for _, at := range b.order {
		if b.members[at].isReady {
			ready = append(ready, at)
		}
	}
	return ready
}

// changed reports the ready members. The caller must hold the lock.
func (b *Balancer) changed() {
	if b.o.Changed != nil {
		b.o.Changed(b.ready())
	}
}

// candidates returns the members to try for a connection, the best first. If none
// is ready, it returns all: a probe may lag behind by its interval.
func (b *Balancer) candidates() (candidates []*member) {
	b.mu.Lock()
	defer b.mu.Unlock()
	order := b.ready()
	if len(order) == 0 {
		order = b.order
	}
	for i := range order {
		candidates = append(candidates, b.members[order[(b.next+i)%len(order)]])
	}
	b.next++
	return candidates
}

func (b *Balancer) accept() {
	for {
		client, err := b.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			b.o.Log.Error(err, "Accepting a connection to API servers")
			if lifecycle.Sleep(b.ctx, acceptPause) != nil {
				return
			}
			continue
		}
		select {
		case b.slots <- struct{}{}:
			b.running.Go(recovery.Func(b.ctx, func() {
				defer func() { <-b.slots }()
				b.carry(client)
			}))
		default:
			_ = client.Close() // too many: waiting would use scarce descriptors of the host
		}
	}
}

// carry serves one connection until one side closes it.
func (b *Balancer) carry(client net.Conn) {
	defer func() { _ = client.Close() }()
	dialer := net.Dialer{Timeout: dialTimeout}
	for _, m := range b.candidates() {
		server, err := dialer.DialContext(b.ctx, "tcp", m.at.String())
		if err != nil {
			b.noted(m, err)
			continue
		}
		if m.takes(server) {
			b.splice(client, server)
			m.gives(server)
		}
		_ = server.Close()
		return
	}
}

// splice copies both ways until both sides have closed.
func (b *Balancer) splice(client, server net.Conn) {
	var back sync.WaitGroup
	back.Go(recovery.Func(b.ctx, func() { forward(client, server) }))
	forward(server, client)
	back.Wait()
}

// forward copies data of one side, and forwards its end of data. If one side cannot
// be written to, the other is no longer read either.
func forward(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if half, ok := to.(*net.TCPConn); ok && err == nil {
		_ = half.CloseWrite()
		return
	}
	_ = to.Close()
	_ = from.Close()
}
