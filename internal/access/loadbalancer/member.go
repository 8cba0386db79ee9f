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
)

// member is one API server.
type member struct {
	at          netip.AddrPort
	stopProbing context.CancelFunc

	isReady bool // guarded by the lock of the Balancer
	failed  int  // probes in a row; guarded as well

	mu          sync.Mutex // guards all below
	connections map[net.Conn]bool
	gone        bool
}

// takes notes a connection, unless the member is gone.
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

// cut ends all connections, and lets no others begin.
func (m *member) cut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone = true
	m.reset()
}

// reset ends all connections: whoever has one connects again, to a member that
// answers. Called with the lock.
func (m *member) reset() {
	for c := range m.connections {
		_ = c.Close()
	}
}

// drain cuts when some time has passed.
func (m *member) drain(ctx context.Context, after time.Duration) {
	select {
	case <-time.After(after):
	case <-ctx.Done():
	}
	m.cut()
}

// probe asks a member over and over whether it is ready: a machine that was killed
// tells nobody.
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
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		if wait = wait * 3 / 2; wait > b.o.Interval {
			wait = b.o.Interval
		}
	}
}

// noted takes what was found out about a member.
func (b *Balancer) noted(m *member, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.members[m.at] != m || b.closed {
		return // it was taken away meanwhile
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

// Ready asks an API server whether it is ready. One that wants to know first who
// asks is.
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

// maxAnswer is more than an API server says.
const maxAnswer = 64 << 10

// prober keeps a connection to each member, so that a probe costs no handshake.
// Whose certificate it is does not matter here: nothing secret is sent, and
// clients check who they get.
var prober = &http.Transport{
	TLSClientConfig:     &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12},
	MaxIdleConnsPerHost: 1,
	IdleConnTimeout:     time.Minute,
	TLSHandshakeTimeout: dialTimeout,
}
