// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"mime"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

const (
	// maxHeader limits the header of a response, and window what a server may send of
	// unread bodies.
	maxHeader = 64 << 10
	window    = 256 << 10

	// dialTimeout is no longer than a probe may take: an unreachable server occupies
	// one of the few slots for attempts meanwhile.
	dialTimeout = 5 * time.Second
)

// newTransport returns a separate transport for one connection, used by all its
// requests. Client-go's are kept forever, one for each client certificate that was
// ever used.
func newTransport(cfg *rest.Config, g *guard) (http.RoundTripper, error) {
	tls, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, errors.New("its certificates cannot be used")
	}
	dial := cfg.Dial
	if dial == nil {
		dial = (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext
	}
	base := &http.Transport{
		Proxy: cfg.Proxy,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, dialTimeout)
			defer cancel()
			return dial(ctx, network, address)
		},
		TLSClientConfig:     tls,
		TLSHandshakeTimeout: dialTimeout,
		ForceAttemptHTTP2:   true,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second,
			MaxReceiveBufferPerStream: window, MaxReceiveBufferPerConnection: 4 * window,
		},
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: maxHeader,
	}
	g.base = base
	wrapped, err := rest.HTTPWrappersForConfig(cfg, g)
	if err != nil {
		base.CloseIdleConnections()
		return nil, errors.New("its credentials cannot be used")
	}
	return wrapped, nil
}

// guard limits responses and detects credentials that are no longer accepted.
type guard struct {
	base         *http.Transport
	answers      *budget
	unauthorized chan struct{} // of size one: the server answered 401
	exceeded     chan error    // of size one: a response exceeded the size limit
}

func newGuard(answers *budget) *guard {
	return &guard{answers: answers, unauthorized: make(chan struct{}, 1), exceeded: make(chan error, 1)}
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := g.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusUnauthorized {
		select {
		case g.unauthorized <- struct{}{}:
		default:
		}
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return resp, nil
	}
	if given := resp.Header.Get("Content-Type"); given != "" {
		if media, _, err := mime.ParseMediaType(given); err != nil || media != runtime.ContentTypeJSON {
			resp.Header.Set("Content-Type", "text/plain") // the decoded size of other formats cannot be determined
		}
	}
	m := &meter{ReadCloser: resp.Body, exceeded: g.exceed, watch: req.URL.Query().Has("watch") && resp.StatusCode == http.StatusOK}
	if m.claim, m.held = req.Context().Value(claimKey{}).(*claim); !m.held {
		m.claim = g.answers.claim()
	}
	resp.Body = m
	if resp.StatusCode >= http.StatusBadRequest {
		cleanRefusal(resp)
	}
	return resp, nil
}

// exceed reports that the cluster exceeds a limit.
func (g *guard) exceed(err error) {
	select {
	case g.exceeded <- err:
	default:
	}
}

// WrappedRoundTripper returns the transport for net/http and client-go, to close
// its idle connections.
func (g *guard) WrappedRoundTripper() http.RoundTripper { return g.base }

// CloseIdleConnections implements the interface that http.Client uses.
func (g *guard) CloseIdleConnections() { g.base.CloseIdleConnections() }
