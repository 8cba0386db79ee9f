// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/internal/kit/download"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
	"github.com/capstan-dev/capstan/internal/kit/registry"
)

const (
	// tries is how often a request is sent when a server or the network fails. With the
	// pauses between them, an outage of some seconds is not noticed, and a longer one is
	// reported after as many.
	tries      = 4
	firstPause = time.Second / 2

	// maxPause is how long a server may ask to wait before the next try: a user at a
	// terminal prefers an error to a longer wait.
	maxPause = 20 * time.Second

	// defaultStall is how long a server may send nothing, and defaultTimeout how
	// long a request may take with all its tries: 32 MiB over a slow line.
	defaultStall   = 30 * time.Second
	defaultTimeout = 5 * time.Minute

	// maxRedirects is the limit of net/http.
	maxRedirects = 10

	// maxAnswer limits how much of an error's text is shown.
	maxAnswer = 300
)

// fetcher reads from servers.
type fetcher struct {
	client  *http.Client
	timeout time.Duration
	plain   bool
	pause   func(ctx context.Context, d time.Duration) error
}

func newFetcher(o Options) *fetcher {
	f := &fetcher{timeout: cmp.Or(o.Timeout, defaultTimeout), plain: o.PlainHTTP, pause: o.Pause}
	f.client = &http.Client{Transport: download.Impatient(o.Transport, cmp.Or(o.Stall, defaultStall)), CheckRedirect: f.checkRedirect}
	if f.pause == nil {
		f.pause = lifecycle.Sleep
	}
	return f
}

// request is what to read.
type request struct {
	url    string
	accept string // empty means anything
	token  string // for the server of url and no other; empty means none
	limit  int64
}

// answer is the response of a server.
type answer struct {
	data   []byte
	header http.Header
}

// StatusError means that a server refuses a request.
type StatusError struct {
	// URL without a password, and Status of the response.
	URL    string
	Status int
	header http.Header
	text   string // of the response
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s: the server answers %d %s", e.URL, e.Status, http.StatusText(e.Status))
	if e.text != "" {
		text += ": " + e.text
	}
	return text
}

func (e *StatusError) notFound() bool {
	return e.Status == http.StatusNotFound || e.Status == http.StatusGone
}

// get reads from a server. Any response except success is a StatusError.
func (f *fetcher) get(ctx context.Context, q request) (a answer, err error) {
	err = f.again(ctx, func(ctx context.Context) (err error) {
		a, err = f.once(ctx, q)
		return err
	})
	return a, err
}

// again calls a function that reads from a server, and repeats it a few times if the
// error may be transient.
func (f *fetcher) again(ctx context.Context, read func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("it took longer than %s", f.timeout))
	defer cancel()
	for n, wait := 1, firstPause; ; n, wait = n+1, 2*wait {
		err := read(ctx)
		if err == nil {
			return nil
		}
		asked, passes := mayPass(err)
		if !passes || n == tries || ctx.Err() != nil || f.pause(ctx, max(wait, asked)) != nil {
			return err
		}
	}
}

// mayPass reports whether another try may succeed, and how long the server requests to
// wait until then.
func mayPass(err error) (time.Duration, bool) {
	status, answered := errors.AsType[*StatusError](err)
	if !answered {
		_, permanent := errors.AsType[permanentError](err)
		permanent = permanent || errors.As(err, new(*download.StalledError)) || errors.As(err, new(*registry.RefusedError))
		unknown, resolved := errors.AsType[*net.DNSError](err)
		return 0, !permanent && !errors.As(err, new(*tls.CertificateVerificationError)) && !(resolved && unknown.IsNotFound)
	}
	seconds, _ := strconv.Atoi(status.header.Get("Retry-After"))
	asked := time.Duration(seconds) * time.Second
	passes := status.Status == http.StatusTooManyRequests || status.Status >= 500 && status.Status != http.StatusNotImplemented
	return asked, passes && asked <= maxPause && status.header.Get("X-Ratelimit-Remaining") != "0"
}

// permanentError is an error that a retry would repeat, or of a request that took too
// long for a retry.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// once sends one request.
func (f *fetcher) once(ctx context.Context, q request) (answer, error) {
	named := redacted(q.url)
	u, err := url.Parse(q.url)
	if err != nil || !f.mayFetch(u) {
		return answer{}, permanentError{fmt.Errorf("%s: use https; http is for this host alone", named)}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, q.url, nil)
	if err != nil {
		return answer{}, permanentError{fmt.Errorf("fetch %s: %w", named, err)}
	}
	req.Header.Set("User-Agent", "capstan")
	if q.accept != "" {
		req.Header.Set("Accept", q.accept)
	}
	if q.token != "" {
		req.Header.Set("Authorization", "Bearer "+q.token)
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return answer{}, fmt.Errorf("fetch %s: %w", named, download.Reason(ctx, err))
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		return answer{}, &StatusError{named, resp.StatusCode, resp.Header, errorText(text)}
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, q.limit+1))
	switch {
	case err != nil:
		return answer{}, fmt.Errorf("fetch %s: %w", named, download.Reason(ctx, err))
	case int64(len(data)) > q.limit:
		return answer{}, permanentError{fmt.Errorf("%s is larger than %d MiB: is it the right file?", named, q.limit>>20)}
	case isPage(data):
		return answer{}, permanentError{fmt.Errorf("%s is a web page: does a proxy or a login stand before it?", named)}
	}
	return answer{data, resp.Header}, nil
}

// errorText is the first line of a server's error response, if it is for people.
func errorText(data []byte) string {
	if isPage(data) {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(data)), "\n")
	return strings.ToValidUTF8(line, "")
}

func isPage(data []byte) bool {
	start := bytes.ToLower(bytes.TrimLeft(data[:min(len(data), 256)], "\ufeff \t\r\n"))
	return bytes.HasPrefix(start, []byte("<!doctype html")) || bytes.HasPrefix(start, []byte("<html"))
}

// mayFetch refuses URLs that others could read or change in transit.
func (f *fetcher) mayFetch(u *url.URL) bool {
	return u.Scheme == "https" || u.Scheme == "http" && (f.plain || registry.IsLoopback(u.Hostname()))
}

// checkRedirect refuses a redirect from https to http, and one that would send a token to
// another server, even on its way back; net/http itself would send it to another port, or
// to a subdomain.
func (f *fetcher) checkRedirect(req *http.Request, via []*http.Request) error {
	first := via[0].URL
	switch {
	case len(via) >= maxRedirects:
		return permanentError{fmt.Errorf("more than %d redirects", maxRedirects)}
	case !f.mayFetch(req.URL) || req.URL.Scheme != "https" && first.Scheme == "https":
		return permanentError{fmt.Errorf("it leads on to %s://%s: only https is followed", req.URL.Scheme, req.URL.Host)}
	}
	for _, r := range append(via[1:len(via):len(via)], req) {
		if r.URL.Host != first.Host || r.URL.Scheme != first.Scheme {
			req.Header.Del("Authorization")
		}
	}
	return nil
}
