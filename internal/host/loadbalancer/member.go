// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
)

// member is one API server.
type member struct {
	at          netip.AddrPort
	stopProbing context.CancelFunc

	isReady bool // guarded by the lock of the Balancer
	failed  int  // failed probes in a row; guarded as well

	mu          sync.Mutex // guards the fields below
	connections map[net.Conn]bool
	gone        bool
}

// takes adds a connection unless the member was removed.
func (m *member) takes(c net.Conn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return false
	}
	m.connections[c] = true
	return true
}

func (m *member) gives(c net.Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.connections, c)
}

// cut ends all connections and refuses new ones.
func (m *member) cut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone = true
	m.reset()
}

// reset ends all connections: their clients connect again, to a member that
// answers. The caller must hold the lock.
func (m *member) reset() {
	for c := range m.connections {
		_ = c.Close()
	}
}

// drain calls cut after some time.
func (m *member) drain(ctx context.Context, after time.Duration) {
	_ = lifecycle.Sleep(ctx, after) // its end ends the connections, too
	m.cut()
}

// probe checks a member repeatedly: a killed machine sends no notification.
func (b *Balancer) probe(ctx context.Context, m *member) {
	wait := b.o.Interval / 10
	for {
		trying, cancel := context.WithTimeout(ctx, b.o.Interval)
		err := b.o.Probe(trying, m.at)
		cancel()
		if ctx.Err() != nil {
			return
		}
		b.noted(m, err)
		if err == nil {
			wait = b.o.Interval
		}
		if lifecycle.Sleep(ctx, wait) != nil {
			return
		}
		if wait = wait * 3 / 2; wait > b.o.Interval {
			wait = b.o.Interval
		}
	}
}

// noted records the result of a probe.
func (b *Balancer) noted(m *member, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.members[m.at] != m || b.closed {
		return // it was removed meanwhile
	}
	was := m.isReady
	if m.failed++; err == nil {
		m.failed, m.isReady = 0, true
	} else if m.failed >= failures {
		m.isReady = false
	}
	switch {
	case was && !m.isReady:
		b.o.Log.Info("Sending nothing to an API server that is not ready", "member", m.at.String(), "reason", err.Error())
		m.mu.Lock()
		m.reset()
		m.mu.Unlock()
	case !was && m.isReady:
		b.o.Log.Info("Sending connections to an API server that is ready", "member", m.at.String())
	default:
		return
	}
	b.changed()
}

// Ready checks whether an API server is ready. An API server that requires
// authentication for this counts as ready.
func Ready(ctx context.Context, member netip.AddrPort) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+member.String()+"/readyz", nil)
	if err != nil {
		return fmt.Errorf("ask %s whether it is ready: %w", member, err)
	}
	answer, err := prober.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("ask %s whether it is ready: %w", member, err)
	}
	defer func() { _ = answer.Body.Close() }()
	if _, err := io.CopyN(io.Discard, answer.Body, maxAnswer); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("ask %s whether it is ready: %w", member, err)
	}
	switch answer.StatusCode {
	case http.StatusOK, http.StatusUnauthorized, http.StatusForbidden:
		return nil
	}
	return fmt.Errorf("ask %s whether it is ready: it answers %s", member, answer.Status)
}

// maxAnswer is more than the response of an API server.
const maxAnswer = 64 << 10

// prober keeps a connection to each member, so that a probe needs no handshake. The
// server's certificate is not verified: nothing secret is sent, and clients verify
// their own connections.
var prober = &http.Transport{
	TLSClientConfig:     &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12},
	MaxIdleConnsPerHost: 1,
	IdleConnTimeout:     time.Minute,
	TLSHandshakeTimeout: dialTimeout,
}
