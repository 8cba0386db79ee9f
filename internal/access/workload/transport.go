// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// maxAnswer bounds the body of an answer. The Nodes of the largest cluster
	// that Kubernetes supports fit; a watch that reaches it starts again.
	maxAnswer = 64 << 20
	// maxHeader bounds the header of an answer.
	maxHeader = 64 << 10

	dialTimeout = 5 * time.Second
)

var errAnswerTooLarge = fmt.Errorf("the answer is larger than %d MiB", maxAnswer>>20)

// newTransport is a transport of its own for one connection, used by
// everything that goes over it. Client-go's are kept for ever, one for each
// client certificate there ever was.
func newTransport(cfg *rest.Config, unauthorized chan<- struct{}) (http.RoundTripper, error) {
	tls, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, errors.New("its certificates cannot be used")
	}
	dial := cfg.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext
	}
	base := &http.Transport{
		Proxy:                  cfg.Proxy,
		DialContext:            dial,
		TLSClientConfig:        tls,
		TLSHandshakeTimeout:    dialTimeout,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: maxHeader,
	}
	wrapped, err := rest.HTTPWrappersForConfig(cfg, &guard{base, unauthorized})
	if err != nil {
		base.CloseIdleConnections()
		return nil, errors.New("its credentials cannot be used")
	}
	return wrapped, nil
}

// guard bounds answers and notices credentials that are no longer accepted.
type guard struct {
	base         *http.Transport
	unauthorized chan<- struct{}
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
	if resp.StatusCode != http.StatusSwitchingProtocols {
		resp.Body = &bounded{resp.Body, maxAnswer}
	}
	return resp, nil
}

// WrappedRoundTripper lets net/http and client-go reach the transport, to close
// its idle connections.
func (g *guard) WrappedRoundTripper() http.RoundTripper { return g.base }

// CloseIdleConnections implements the interface that http.Client looks for.
func (g *guard) CloseIdleConnections() { g.base.CloseIdleConnections() }

// bounded is a body that ends with an error when it is too large.
type bounded struct {
	io.ReadCloser
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errAnswerTooLarge
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	return n, err
}
