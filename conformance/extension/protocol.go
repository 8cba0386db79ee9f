// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/internal/access/extensions/transport"
	"github.com/capstan-dev/capstan/internal/pure/extensionconfig"
)

const (
	// leastValidity is what a certificate must still be valid for.
	leastValidity = 24 * time.Hour

	// largeBody is a body that no request has.
	largeBody = 32 << 20

	jsonType = "application/json"

	// inParallel is how many calls are sent concurrently.
	inParallel = 16
)

// certificateVerified makes a TLS connection as callers do.
func certificateVerified(ctx context.Context, s *session, _ *handler) error {
	_, err := s.handshake(ctx)
	return err
}

// certificateLasts checks the certificate and its issuers.
func certificateLasts(ctx context.Context, s *session, _ *handler) error {
	chain, err := s.handshake(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, cert := range chain {
		if left := time.Until(cert.NotAfter); left < leastValidity {
			errs = append(errs, fmt.Errorf("certificate %q expires at %s", cert.Subject, cert.NotAfter.UTC().Format(time.RFC3339)))
		}
	}
	return errors.Join(errs...)
}

// handshake returns the certificates that the server's is verified through.
func (s *session) handshake(ctx context.Context) ([]*x509.Certificate, error) {
	if s.base.Scheme != "https" {
		return nil, fmt.Errorf("the url begins with %s://, not https://", s.base.Scheme)
	}
	limit := s.limit(extensionconfig.DefaultTimeout)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := s.dial(ctx)
	if late := ctx.Err(); err != nil && errors.Is(late, context.DeadlineExceeded) {
		return nil, fmt.Errorf("no TLS connection within %s: %w", limit, late)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	return conn.ConnectionState().VerifiedChains[0], nil
}

func (s *session) dial(ctx context.Context) (*tls.Conn, error) {
	port := s.base.Port()
	if port == "" {
		port = "443"
	}
	conn, err := s.connect(ctx, "tcp", net.JoinHostPort(s.base.Hostname(), port))
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	secure := tls.Client(conn, s.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("connect: %w", err), conn.Close())
	}
	return secure, nil
}

// discoveryValid requests the handlers and stores them.
func discoveryValid(ctx context.Context, s *session, _ *handler) error {
	answered, err := s.discover(ctx)
	if err != nil {
		return err
	}
	found, err := extensionconfig.Handlers(s.config.Catalog, s.config.Name, answered)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return errors.New("it has no handlers")
	}
	for _, f := range found {
		hook, err := extensionconfig.Hook(f.RequestHook)
		if err != nil {
			return err
		}
		d, err := s.config.Catalog.Find(hook)
		if err != nil {
			return err
		}
		if s.config.wants(d.Hook) {
			name := strings.TrimSuffix(f.Name, "."+s.config.Name)
			s.handlers = append(s.handlers, newHandler(d, f.Name, name, time.Duration(f.TimeoutSeconds)*time.Second))
		}
	}
	s.discovered = true
	s.fault = s.unmatchedRequests(found)
	return nil
}

func (s *session) discover(ctx context.Context) (*hooksv1.DiscoveryResponse, error) {
	a, err := s.ask(ctx, s.discovery, s.finish(request{}, s.discovery).withoutSettings())
	if err != nil {
		return nil, err
	}
	answered, ok := a.response.(*hooksv1.DiscoveryResponse)
	if !ok {
		return nil, fmt.Errorf("discovery of %s is not known to the suite", s.discovery.hook)
	}
	return answered, nil
}

// withoutSettings removes the field that a DiscoveryRequest does not have.
func (r request) withoutSettings() request {
	delete(r, "settings")
	return r
}

// discoveryStable sends the request again, sequentially and concurrently.
func discoveryStable(ctx context.Context, s *session, _ *handler) error {
	want, err := s.discover(ctx)
	if err != nil {
		return err
	}
	compare := func() error {
		got, err := s.discover(ctx)
		if err != nil {
			return err
		}
		return sameHandlers(want.Handlers, got.Handlers)
	}
	for range 2 {
		if err := compare(); err != nil {
			return err
		}
	}
	return firstOf(parallel(inParallel, func(int) error { return compare() }))
}

// sameHandlers compares without regard to order.
func sameHandlers(want, got []hooksv1.ExtensionHandler) error {
	texts := func(hs []hooksv1.ExtensionHandler) map[string]string {
		m := map[string]string{}
		for _, h := range hs {
			m[h.Name] = jsonOf(h)
		}
		return m
	}
	w, g := texts(want), texts(got)
	for name, text := range w {
		if _, ok := g[name]; !ok {
			return fmt.Errorf("handler %q is there once and missing another time", name)
		}
		if g[name] != text {
			return fmt.Errorf("handler %q is %s once and %s another time", name, text, g[name])
		}
	}
	for name := range g {
		if _, ok := w[name]; !ok {
			return fmt.Errorf("handler %q is there once and missing another time", name)
		}
	}
	return nil
}

// exchange is a call that is not well-formed in some way.
type exchange struct {
	method, path, contentType string
	body                      io.Reader
	length                    int64
}

// send sends a raw call and returns the status of its response.
func (s *session) send(ctx context.Context, e exchange, limit time.Duration) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	path, query, _ := strings.Cut(e.path, "?")
	u := s.base.JoinPath(path)
	u.RawQuery = query
	req, err := http.NewRequestWithContext(ctx, e.method, u.String(), e.body)
	if err != nil {
		return 0, nil, err
	}
	if e.length > 0 {
		req.ContentLength = e.length
	}
	if e.contentType != "" {
		req.Header.Set("Content-Type", e.contentType)
	}
	resp, err := s.raw.Do(req)
	if err != nil {
		return 0, nil, withoutURL(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(resp.Body, transport.DefaultMaxResponseBytes))
	return resp.StatusCode, body, err
}

// withoutURL removes method and address, which readers have already.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// paths are the paths that are called with malformed requests.
func (s *session) paths() []*handler {
	return append([]*handler{s.discovery}, s.handlers...)
}

// refused reports where a call is not answered 4xx.
func (s *session) refused(ctx context.Context, h *handler, e exchange) error {
	e.path = h.path
	status, _, err := s.send(ctx, e, s.limit(h.timeout)+grace)
	if err != nil {
		return fmt.Errorf("want a status 4xx, got none: %w", err)
	}
	if status < 400 || status > 499 {
		return fmt.Errorf("want a status 4xx, got %d", status)
	}
	return nil
}

// noContentTypeAccepted calls as Cluster API's own client does, which sends a timeout but
// not this header.
func noContentTypeAccepted(ctx context.Context, s *session, h *handler) error {
	r, err := s.sample(h)
	if err != nil {
		return err
	}
	limit := s.limit(h.timeout)
	e := exchange{method: http.MethodPost, path: h.path + "?timeout=" + limit.String(), body: bytes.NewReader(r.json())}
	status, _, err := s.send(ctx, e, limit+grace)
	if err != nil {
		return fmt.Errorf("want status 200, got none: %w", err)
	}
	if status != http.StatusOK {
		return fmt.Errorf("want status 200, got %d", status)
	}
	return nil
}

func wrongContentTypeRefused(ctx context.Context, s *session, h *handler) error {
	r, err := s.sample(h)
	if err != nil {
		return err
	}
	return s.refused(ctx, h, exchange{method: http.MethodPost, contentType: "text/plain", body: bytes.NewReader(r.json())})
}

func brokenJSONRefused(ctx context.Context, s *session, h *handler) error {
	for _, body := range []string{`{"apiVersion": `, ``, `[]`} {
		if err := s.refused(ctx, h, exchange{method: http.MethodPost, contentType: jsonType, body: strings.NewReader(body)}); err != nil {
			return fmt.Errorf("body %q: %w", body, err)
		}
	}
	return nil
}

func wrongKindRefused(ctx context.Context, s *session, h *handler) error {
	r, err := s.sample(h)
	if err != nil {
		return err
	}
	r["kind"] = "CapstanConformanceRequest"
	return s.refused(ctx, h, exchange{method: http.MethodPost, contentType: jsonType, body: bytes.NewReader(r.json())})
}

func getRefused(ctx context.Context, s *session, h *handler) error {
	return s.refused(ctx, h, exchange{method: http.MethodGet})
}

// sample is a valid request to be modified.
func (s *session) sample(h *handler) (request, error) {
	if h == s.discovery {
		return s.finish(request{}, h).withoutSettings(), nil
	}
	return s.request(h)
}

func unknownPathNotFound(ctx context.Context, s *session, _ *handler) error {
	hook := s.discovery.hook
	unknown := catalog.GroupVersionHook{Group: hook.Group, Version: hook.Version, Hook: "CapstanConformance"}
	paths := []string{unknown.Path(""), unknown.Path("handler"), hook.Path("capstan-conformance")}
	for _, h := range s.handlers {
		paths = append(paths, h.hook.Path("capstan-conformance"))
	}
	slices.Sort(paths)
	var errs []error
	for _, path := range slices.Compact(paths) {
		body := bytes.NewReader(request{"apiVersion": hook.GroupVersion().String(), "kind": hook.Hook + "Request"}.json())
		status, _, err := s.send(ctx, exchange{method: http.MethodPost, path: path, contentType: jsonType, body: body}, s.limit(extensionconfig.DefaultTimeout))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: want status 404, got none: %w", path, err))
			if late(err) {
				break // the other paths have the same result
			}
		} else if status != http.StatusNotFound {
			errs = append(errs, fmt.Errorf("%s: want status 404, got %d", path, status))
		}
	}
	return errors.Join(errs...)
}

// largeBodySurvived sends a body of huge size and checks whether the server still
// answers. The contract does not define its answer to that body, or whether it closes the
// connection.
func largeBodySurvived(ctx context.Context, s *session, _ *handler) error {
	body := io.MultiReader(strings.NewReader(`{"apiVersion":"`), io.LimitReader(endless('x'), largeBody), strings.NewReader(`"}`))
	_, _, sent := s.send(ctx, exchange{method: http.MethodPost, path: s.discovery.path, contentType: jsonType, body: body}, s.limit(extensionconfig.DefaultTimeout))
	if _, err := s.discover(ctx); err != nil {
		return fmt.Errorf("discovery after a body of %d MiB: %w", largeBody>>20, err)
	}
	if errors.Is(sent, context.DeadlineExceeded) {
		return conformance.Skip("it answers again, but a body of %d MiB could not be sent in time", largeBody>>20)
	}
	return nil
}

// endless is one byte, repeated without end.
type endless byte

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

// cancelledCallForgotten aborts calls at different points.
func cancelledCallForgotten(ctx context.Context, s *session, h *handler, r request, before answer) error {
	body := r.json()
	again := func() error {
		after, err := s.ask(ctx, h, r)
		if err != nil {
			return fmt.Errorf("the call after one that was broken off: %w", err)
		}
		return sameKind(before, after)
	}
	for range 3 {
		if err := s.breakOff(ctx, h, body); err != nil {
			return err
		}
		if err := again(); err != nil {
			return err
		}
		cut, cancel := context.WithCancel(ctx)
		trace := httptrace.WithClientTrace(cut, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { cancel() }})
		_, _, _ = s.send(trace, exchange{method: http.MethodPost, path: h.path, contentType: jsonType, body: bytes.NewReader(body)}, s.limit(h.timeout)) // no caller waits for it
		cancel()
		if err := again(); err != nil {
			return err
		}
	}
	return nil
}

// breakOff closes the connection within the body of a request, and waits a moment for the
// server to notice.
func (s *session) breakOff(ctx context.Context, h *handler, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, s.limit(h.timeout))
	defer cancel()
	conn, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n",
		s.base.JoinPath(h.path).EscapedPath(), s.base.Host, jsonType, len(body))
	_ = conn.SetDeadline(time.Now().Add(grace))
	// From here on, errors are ignored: the server closed the connection first, as it
	// may.
	if _, err := conn.Write(append([]byte(head), body[:len(body)/2]...)); err != nil {
		return nil
	}
	_ = conn.CloseWrite()
	_, _ = io.Copy(io.Discard, io.LimitReader(conn, transport.DefaultMaxResponseBytes))
	return nil
}

// parallel runs n functions at the same time and returns their errors.
func parallel(n int, f func(i int) error) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errs
}

// firstOf is the first error, with the number of errors.
func firstOf(errs []error) error {
	bad := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	switch {
	case len(bad) == 0:
		return nil
	case len(bad) == 1:
		return bad[0]
	}
	return fmt.Errorf("%d of %d calls: %w", len(bad), len(errs), bad[0])
}
