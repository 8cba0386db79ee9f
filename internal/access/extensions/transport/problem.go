// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// connectError and handshakeError mark how far a new connection got.
type connectError struct{ error }

func (e *connectError) Unwrap() error { return e.error }

type handshakeError struct{ error }

func (e *handshakeError) Unwrap() error { return e.error }

// evidence returns what a failed call shows about the server.
func (e *Error) evidence() evidence {
	switch e.Reason {
	case Connection, TLS, Timeout:
		return inTrouble
	case Status:
		if e.Status >= http.StatusInternalServerError || e.Status == http.StatusTooManyRequests {
			return inTrouble
		}
	case BadEndpoint, Backoff, Canceled:
		return unknown
	}
	return answered
}

func (s *server) refused(err error) *Error {
	e := &Error{Host: s.host, Reason: Backoff, Err: err}
	if r, ok := errors.AsType[*refusal](err); ok {
		e.Retry = r.retry
	}
	return e
}

// ended returns the error of a call that was over before its response; nil if
// neither its context nor the pool has ended.
func (s *server) ended(ctx context.Context, doing string) *Error {
	switch {
	case s.lifetime.Err() != nil:
		return &Error{Host: s.host, Reason: Canceled, Err: ErrClosed}
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &Error{Host: s.host, Reason: Timeout, Err: fmt.Errorf("time ran out %s: %w", doing, ctx.Err())}
	case ctx.Err() != nil:
		return &Error{Host: s.host, Reason: Canceled, Err: fmt.Errorf("given up %s: %w", doing, ctx.Err())}
	}
	return nil
}

// failed returns the error of a call without a response.
func (s *server) failed(ctx context.Context, err error) *Error {
	doing := "waiting for its answer"
	if s.connected.Load() == 0 {
		doing = "connecting"
	}
	if e := s.ended(ctx, doing); e != nil {
		return e
	}
	e := &Error{Host: s.host}
	if _, ok := errors.AsType[*connectError](err); ok {
		e.Reason, e.Err = Connection, fmt.Errorf("connect: %w", err)
		return e
	}
	_, handshake := errors.AsType[*handshakeError](err)
	alert, isOp := errors.AsType[*net.OpError](err)
	if handshake || (isOp && alert.Op == "remote error") || s.asked.Load() {
		e.Reason, e.Err = TLS, s.explain(err)
		return e
	}
	switch text := err.Error(); {
	case strings.Contains(text, "server response headers exceeded"), strings.Contains(text, "response header list larger"):
		e.Reason, e.Err = TooLarge, fmt.Errorf("the headers of its answer have more than %d bytes", maxHeaderBytes)
	case strings.Contains(text, "malformed"):
		e.Reason, e.Err = Connection, fmt.Errorf("it answers something else than HTTP: %w", shorten(err))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		e.Reason, e.Err = Connection, fmt.Errorf("it closed the connection without an answer: %w", shorten(err))
	default:
		e.Reason, e.Err = Connection, fmt.Errorf("no answer: %w", shorten(err))
	}
	return e
}

// broken returns the error of an incomplete response.
func (s *server) broken(ctx context.Context, err error, read int) *Error {
	if e := s.ended(ctx, fmt.Sprintf("after %d bytes of its answer", read)); e != nil {
		return e
	}
	return &Error{Host: s.host, Reason: Connection, Status: http.StatusOK, Err: fmt.Errorf("its answer broke off after %d bytes: %w", read, shorten(err))}
}

// unwelcome returns the error of a response whose status is not 200.
func (s *server) unwelcome(resp *http.Response, path string, sent []byte) *Error {
	e := &Error{Host: s.host, Reason: Status, Status: resp.StatusCode}
	status := fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		to := "nowhere"
		if u, err := url.Parse(resp.Header.Get("Location")); err == nil {
			to = s.host
			if u.Host != "" {
				to = clean(u.Host)
			}
		}
		e.Reason = Redirect
		e.Err = fmt.Errorf("it answers POST %s with %s to %s: redirects are not followed, name that server itself", path, status, to)
		return e
	}
	e.Err = fmt.Errorf("it answers POST %s with %s%s", path, strings.TrimSpace(status), excerpt(resp.Body, sent))
	return e
}

// explain returns why two sides do not trust each other.
func (s *server) explain(err error) error {
	if host, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Errorf("its certificate is for %s; not for %s: give it one for %[2]s or call it by one of its names: %w", names(host.Certificate), host.Host, shorten(err))
	}
	if authority, ok := errors.AsType[x509.UnknownAuthorityError](err); ok && authority.Cert != nil {
		where := "which the system does not trust: put that authority's certificate into the CA bundle"
		if s.bundled {
			where = "which the CA bundle does not hold: put that authority's certificate there"
		}
		return fmt.Errorf("its certificate was issued by %q, %s: %w", clean(authority.Cert.Issuer.String()), where, shorten(err))
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired && invalid.Cert != nil {
		return s.outOfTime(invalid.Cert, err)
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return fmt.Errorf("it does not speak TLS, which servers of extensions must: %w", shorten(err))
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "protocol version"):
		return fmt.Errorf("it knows no TLS of version 1.2 or later: %w", shorten(err))
	case s.asked.Load(), s.cert == nil && strings.Contains(text, "certificate required"):
		return fmt.Errorf("it asks for a client certificate and none is configured: configure one that it trusts: %w", shorten(err))
	case strings.Contains(text, "remote error") && strings.Contains(text, "certificate") && s.cert != nil:
		return fmt.Errorf("it refuses the client certificate in %s: %w", s.certFile, shorten(err))
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no TLS handshake within %v", connectTimeout)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("it closed the connection in the TLS handshake: %w", shorten(err))
	}
	return fmt.Errorf("secure the connection: %w", shorten(err))
}

func (s *server) outOfTime(cert *x509.Certificate, err error) error {
	whose := "its certificate"
	if cert.IsCA {
		whose = fmt.Sprintf("the authority %q of its certificate", clean(cert.Subject.String()))
	}
	if time.Now().Before(cert.NotBefore) {
		return fmt.Errorf("%s is valid from %s only: compare the clocks: %w", whose, cert.NotBefore.UTC().Format(time.RFC3339), shorten(err))
	}
	return fmt.Errorf("%s expired at %s: renew it: %w", whose, cert.NotAfter.UTC().Format(time.RFC3339), shorten(err))
}

// ErrClosed is the reason why calls end with Canceled once the pool is closed.
var ErrClosed = errors.New("the pool is closed")

// Reason is the kind of failure of a call.
type Reason string

// The reasons. Connection, TLS, Timeout and the statuses 429 and 5xx mean that the
// server has a problem, and cause Backoff when they repeat.
const (
	// Endpoint: the endpoint is invalid; nothing was sent.
	BadEndpoint Reason = "Endpoint"
	// Connection: no connection, or it broke before the response was complete.
	Connection Reason = "Connection"
	// TLS: the two sides do not trust or understand each other.
	TLS Reason = "TLS"
	// Timeout: the context's deadline passed before the response was complete.
	Timeout Reason = "Timeout"
	// Redirect: the server redirects, which calls do not follow.
	Redirect Reason = "Redirect"
	// Status: the server responds with another status than 200.
	Status Reason = "Status"
	// TooLarge: the response exceeds the size limit.
	TooLarge Reason = "TooLarge"
	// ContentType: the response is not JSON.
	ContentType Reason = "ContentType"
	// Backoff: the server failed before and is not called until Error.Retry.
	Backoff Reason = "Backoff"
	// Canceled: the caller canceled the call, or the pool was closed.
	Canceled Reason = "Canceled"
)

// Error is the reason why a call has no response. All errors of Post and Probe are
// of this type. Its text never contains the request.
type Error struct {
	// Host is the name of the server, as in Endpoint.Host.
	Host string
	// Reason is the kind of failure.
	Reason Reason
	// Status is the HTTP status of the response; 0 if there was none.
	Status int
	// Retry is when a call may be retried, only for Backoff.
	Retry time.Time
	// Err has the cause and the remedy.
	Err error
}

func (e *Error) Error() string { return "server " + e.Host + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }
