// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// maxAnswer is the size limit of any response except layers: manifests and
// configurations of images have some kilobytes, and registries accept 4 MiB at
// most.
const maxAnswer = 8 << 20

// markLarge is a header of requests for layers until they leave this host.
const markLarge = "Capstan-Large"

// errTooLarge means that a response exceeds maxAnswer.
var errTooLarge = errors.New("the answer is larger than 8 MiB")

// large marks requests whose responses may be large: the caller has its own limit.
// It also marks redirected requests.
type large struct{ http.RoundTripper }

func (l large) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(markLarge, "yes")
	return l.RoundTripper.RoundTrip(r)
}

// guard refuses requests without encryption, except to hosts that are plain; nil is
// none. It also limits responses, which the layers above it read whole.
type guard struct {
	inner http.RoundTripper
	plain func(host string) bool
}

func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && (g.plain == nil || !g.plain(r.URL.Host)) {
		return nil, fmt.Errorf("%s would be asked without encryption: list it as one that speaks plain HTTP, if it may be", r.URL.Host)
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
			return &NotFoundError{Image: r.image, Host: c.host}
		case http.StatusUnauthorized, http.StatusForbidden:
			return &DeniedError{Image: r.image, Host: c.host, Said: short(said)}
		}
		return fmt.Errorf("ask %s for image %s: it answers %d %s", c.host, r.image, answer.StatusCode, short(said))
	}
	if at, ok := errors.AsType[*url.Error](err); ok {
		err = fmt.Errorf("%s: %w", hostOf(at.URL), at.Err)
	}
	if len(err.Error()) > maxText {
		err = &abridged{err}
	}
	return fmt.Errorf("ask %s for image %s: %w", c.host, r.image, err)
}

// abridged is an error with a shortened text.
type abridged struct{ error }

func (a *abridged) Error() string { return short(a.error.Error()) }

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
