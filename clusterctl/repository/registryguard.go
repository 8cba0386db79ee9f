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
	"slices"
	"strings"
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
		if isReserved(a) {
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

// reserved are addresses of this host and of metadata services of clouds, in addition
// to loopback and link-local addresses.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba Cloud
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure
	netip.MustParsePrefix("fd00:ec2::/32"),      // Amazon EC2
	netip.MustParsePrefix("fd20:ce::254/128"),   // Google Cloud
}

// Prefixes of IPv6 addresses that contain an IPv4 address: RFC 6052 and RFC 3056.
var (
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
)

// isReserved reports whether a registry elsewhere must not name a server with this
// address.
func isReserved(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	switch b := a.As16(); {
	case nat64.Contains(a):
		a = netip.AddrFrom4([4]byte(b[12:16]))
	case sixToFour.Contains(a):
		a = netip.AddrFrom4([4]byte(b[2:6]))
	}
	return a.IsLoopback() || a.IsUnspecified() || a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast() ||
		slices.ContainsFunc(reserved, func(p netip.Prefix) bool { return p.Contains(a) })
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
