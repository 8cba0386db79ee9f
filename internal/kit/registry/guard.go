// SPDX-License-Identifier: Apache-2.0

package registry

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
	"unicode"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/capstan-dev/capstan/internal/kit/dialguard"
)

// maxAnswer is the size limit of any response except layers: manifests and
// configurations of images have some kilobytes, and registries accept 4 MiB at
// most.
const maxAnswer = 8 << 20

// markLarge is a header of requests for layers until they leave this host.
const markLarge = "Capstan-Large"

// errTooLarge means that a response exceeds maxAnswer.
var errTooLarge = &RefusedError{"the answer is larger than 8 MiB"}

// large marks requests whose responses may be large: the caller has its own limit.
// It also marks redirected requests.
type large struct{ http.RoundTripper }

func (l large) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(markLarge, "yes")
	return l.RoundTripper.RoundTrip(r)
}

// RefusedError means that a registry names a server that it must not name, or sends too
// much. Another attempt has the same result.
type RefusedError struct{ Reason string }

// Error implements error.
func (e *RefusedError) Error() string { return e.Reason }

// guard carries the requests for one registry or mirror. The registry names other
// servers, for tokens and in redirects, which get credentials or are reached from the
// network of this host. guard refuses those that a registry must not name, and limits
// responses, which the layers above it read whole.
type guard struct {
	inner    http.RoundTripper
	hostname string                 // of the registry
	plain    func(host string) bool // nil if all servers must use TLS
	resolve  func(r *http.Request, host string) []netip.Addr
}

func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := g.check(r); err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	isLarge := r.Header.Get(markLarge) != ""
	if isLarge {
		r = r.Clone(r.Context())
		r.Header.Del(markLarge)
	}
	resp, err := g.inner.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if !isLarge || resp.StatusCode/100 != 2 {
		resp.Body = &bounded{ReadCloser: resp.Body, left: maxAnswer}
	}
	return resp, nil
}

func (g *guard) check(r *http.Request) error {
	if r.URL.Scheme != "https" && (g.plain == nil || !g.plain(r.URL.Host)) {
		// This error may pass: go-containerregistry tries a private address with http
		// after any error with https.
		return fmt.Errorf("%s would be asked without encryption: list it as one that speaks plain HTTP, if it may be", r.URL.Host)
	}
	if r.Response != nil && r.Method != http.MethodGet {
		// Only a request for a token has a body. It contains the refresh token.
		return &RefusedError{"request for a token is redirected to " + r.URL.Host}
	}
	if strings.EqualFold(r.URL.Hostname(), g.hostname) {
		return nil
	}
	for _, a := range g.resolve(r, r.URL.Hostname()) {
		// A registry of this host, which need not use TLS, may use servers next to it.
		if dialguard.IsReserved(a) && (g.plain == nil || !slices.ContainsFunc(g.resolve(r, g.hostname), dialguard.IsReserved)) {
			return &RefusedError{fmt.Sprintf("%s names server %s, which has the local address %s", g.hostname, r.URL.Host, a)}
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

type bounded struct {
	io.ReadCloser
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// explain converts an error of a registry to an understandable one, without parts
// that must not be shown: addresses with signatures, and long texts.
func (r *Repository) explain(c *connection, err error) error {
	if answer, ok := errors.AsType[*transport.Error](err); ok {
		said := http.StatusText(answer.StatusCode)
		if len(answer.Errors) > 0 {
			said = string(answer.Errors[0].Code) + " " + answer.Errors[0].Message
		}
		switch answer.StatusCode {
		case http.StatusNotFound:
			return &NotFoundError{Image: r.image, Host: c.host, Answer: answer}
		case http.StatusUnauthorized, http.StatusForbidden:
			return &DeniedError{Image: r.image, Host: c.host, Said: short(said), Answer: answer}
		}
		err = &abridged{answer, fmt.Sprintf("it answers %d %s", answer.StatusCode, short(said))}
		return fmt.Errorf("ask %s for image %s: %w", c.host, r.image, err)
	}
	if at, ok := errors.AsType[*url.Error](err); ok {
		err = fmt.Errorf("%s: %w", hostOf(at.URL), at.Err)
	}
	if len(err.Error()) > maxText {
		err = &abridged{err, short(err.Error())}
	}
	return fmt.Errorf("ask %s for image %s: %w", c.host, r.image, err)
}

// abridged is an error with another text.
type abridged struct {
	error
	text string
}

func (a *abridged) Error() string { return a.text }

func (a *abridged) Unwrap() error { return a.error }

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "an address"
	}
	return u.Host
}

// maxText is how much of a text from a server is repeated.
const maxText = 500

// short makes a text from a server fit for a line of a terminal.
func short(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
	return strings.TrimSpace(text[:min(len(text), maxText)])
}
