// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/capstan-dev/capstan/internal/kit/dialguard"
)

// registryGuard carries the requests for the artifacts of one registry. The registry
// names other servers, for tokens and in redirects, which get credentials or are
// reached from the network of this host. registryGuard refuses those that a registry
// must not name, and limits the size of responses.
type registryGuard struct {
	next     http.RoundTripper
	hostname string                     // of the registry
	mayPlain func(server *url.URL) bool // nil if all servers must use TLS
	resolve  func(r *http.Request, host string) []netip.Addr
}

func newRegistryGuard(r *oci) *registryGuard {
	server := url.URL{Host: r.repo.RegistryStr()}
	g := &registryGuard{next: r.fetch.client.Transport, hostname: server.Hostname(), resolve: lookUp}
	if r.plain {
		g.mayPlain = r.fetch.mayFetch
	}
	return g
}

// RoundTrip implements http.RoundTripper.
func (g *registryGuard) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := g.check(r); err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	resp, err := g.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = &limitedBody{ReadCloser: resp.Body, left: maxFile}
	return resp, nil
}

func (g *registryGuard) check(r *http.Request) error {
	if r.URL.Scheme != "https" && (g.mayPlain == nil || !g.mayPlain(r.URL)) {
		// This error may pass: the registry client tries a private address with http
		// after any error with https.
		return fmt.Errorf("%s://%s: only https is allowed", r.URL.Scheme, r.URL.Host)
	}
	if r.Response != nil && r.Method != http.MethodGet {
		// Only a request for a token has a body. It contains the refresh token.
		return permanentError{fmt.Errorf("request for a token is redirected to %s", r.URL.Host)}
	}
	// A registry on this host may use servers next to it.
	if g.mayPlain != nil || strings.EqualFold(r.URL.Hostname(), g.hostname) {
		return nil
	}
	for _, a := range g.resolve(r, r.URL.Hostname()) {
		if dialguard.IsReserved(a) {
			return permanentError{fmt.Errorf("%s names server %s, which has the local address %s", g.hostname, r.URL.Host, a)}
		}
	}
	return nil
}

// lookUp returns the addresses of a host. It returns none if the host is not found: a
// proxy may resolve it, or the request fails.
func lookUp(r *http.Request, host string) []netip.Addr {
	found, _ := net.DefaultResolver.LookupNetIP(r.Context(), "ip", host) // an address resolves to itself
	return found
}

// limitedBody is the body of a response, of which no more than left bytes are read.
type limitedBody struct {
	io.ReadCloser
	left int64
}

var errTooLarge = permanentError{errors.New("the response is too large")}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}
