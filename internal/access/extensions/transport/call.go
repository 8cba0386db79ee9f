// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// defaultTimeout bounds a call whose context has no deadline.
const defaultTimeout = 10 * time.Second

// header is part of all requests. It is shared: net/http only reads it. An
// Idempotency-Key without a value is not sent; it lets net/http send a request
// again over a new connection when the server closes an idle one at the same
// moment. Hooks are called again after any failure, so they must support that
// anyway.
var header = http.Header{
	"Content-Type":    {"application/json"},
	"Accept":          {"application/json"},
	"User-Agent":      {"capstan"},
	"Idempotency-Key": {},
}

func (p *Pool) call(ctx context.Context, e Endpoint, path string, body []byte, probe bool) ([]byte, error) {
	for {
		s, err := p.server(e)
		if err != nil {
			return nil, err
		}
		if !s.enter() { // forgotten meanwhile
			continue
		}
		return s.call(ctx, path, body, probe)
	}
}

// call waits for its turn and makes the call. It leaves the server.
func (s *server) call(ctx context.Context, path string, body []byte, probe bool) ([]byte, error) {
	defer s.leave()
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, defaultTimeout)
		defer cancel()
	}
	if !probe {
		if err := s.gate.refused(); err != nil {
			return nil, s.refused(err)
		}
	}
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	defer func() { <-s.slots }()
	pass, err := s.gate.admit(probe)
	if err != nil {
		return nil, s.refused(err)
	}
	answer, failure := s.post(ctx, path, body)
	if failure != nil {
		s.gate.settle(pass, failure.evidence(), failure.Err)
		return nil, failure
	}
	s.gate.settle(pass, answered, nil)
	return answer, nil
}

// wait takes one of the server's slots.
func (s *server) wait(ctx context.Context) *Error {
	if ctx.Err() == nil {
		select {
		case s.slots <- struct{}{}:
			return nil
		default:
		}
	}
	select {
	case s.slots <- struct{}{}:
		if ctx.Err() == nil {
			return nil
		}
		<-s.slots
	case <-ctx.Done():
	case <-s.lifetime.Done():
	}
	return s.ended(ctx, fmt.Sprintf("waiting for one of %d calls in flight to end", MaxInFlight))
}

// post makes the call.
func (s *server) post(ctx context.Context, path string, body []byte) ([]byte, *Error) {
	target := s.target(path)
	u := *target
	u.RawQuery = "timeout=" + timeLeft(ctx)
	req := (&http.Request{
		Method: http.MethodPost, URL: &u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: http.NoBody, ContentLength: int64(len(body)),
	}).WithContext(ctx)
	if len(body) > 0 {
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		req.Body, _ = req.GetBody()
	}
	if trace.SpanContextFromContext(ctx).IsValid() {
		req.Header = header.Clone()
		propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(req.Header))
	}
	resp, err := s.transport.RoundTrip(req)
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	s.answered.Store(true)
	s.asked.Store(false)
	if resp.StatusCode != http.StatusOK {
		return nil, s.unwelcome(resp, target.Path, body)
	}
	if err := acceptable(resp.Header); err != nil {
		return nil, &Error{Host: s.host, Reason: ContentType, Status: resp.StatusCode, Err: err}
	}
	return s.read(ctx, resp)
}

// timeLeft returns the remaining time for the server; it is rounded up, so that a
// deadline of ten seconds results in 10s although some of it has passed already.
func timeLeft(ctx context.Context) string {
	deadline, _ := ctx.Deadline()
	const unit = 10 * time.Millisecond
	left := max(time.Until(deadline), unit)
	return ((left + unit - 1) / unit * unit).String()
}

// acceptable refuses what cannot be JSON. It accepts responses without a type, or
// with text/plain: servers with Cluster API's own server package set no type, for
// which Go's net/http then sends text/plain.
func acceptable(h http.Header) error {
	if encoding := h.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return fmt.Errorf("its answer is encoded as %s, which was not asked for: switch compression off", clean(encoding))
	}
	value := h.Get("Content-Type")
	if value == "" || value == "application/json" {
		return nil
	}
	switch kind, _, err := mime.ParseMediaType(value); {
	case err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter):
		return fmt.Errorf("its answer has the malformed content type %s: set application/json", clean(value))
	case kind != "application/json" && kind != "text/plain":
		return fmt.Errorf("its answer is %s, not application/json: is this the server of an extension?", clean(kind))
	}
	return nil
}

// read reads the response, but no more than one byte over the limit.
func (s *server) read(ctx context.Context, resp *http.Response) ([]byte, *Error) {
	if resp.ContentLength > s.limit {
		return nil, s.tooLarge(fmt.Errorf("its answer has %d bytes, more than the %d allowed", resp.ContentLength, s.limit))
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, s.limit+1)) // memory follows what arrives, not what was announced
	switch {
	case int64(len(answer)) > s.limit:
		return nil, s.tooLarge(fmt.Errorf("its answer has more than the %d bytes allowed", s.limit))
	case err != nil:
		return nil, s.broken(ctx, err, len(answer))
	}
	return answer, nil
}

func (s *server) tooLarge(err error) *Error {
	return &Error{Host: s.host, Reason: TooLarge, Status: http.StatusOK, Err: err}
}
