// SPDX-License-Identifier: Apache-2.0

package download

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// StalledError means that a server sent nothing for some time.
type StalledError struct{ For time.Duration }

// Error implements error.
func (e *StalledError) Error() string { return fmt.Sprintf("the server sent nothing for %s", e.For) }

// Impatient returns a transport that ends a request with a StalledError if the server
// sends nothing for some time, before its response or within it. next is the transport
// that sends the requests; nil is that of net/http.
func Impatient(next http.RoundTripper, idle time.Duration) http.RoundTripper {
	return &impatient{cmp.Or(next, http.DefaultTransport), idle}
}

type impatient struct {
	next http.RoundTripper
	idle time.Duration
}

// RoundTrip implements http.RoundTripper.
func (t *impatient) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	b := &impatientBody{ctx: ctx, idle: t.idle, cancel: cancel}
	b.timer = time.AfterFunc(t.idle, recovery.Func(ctx, func() { cancel(&StalledError{t.idle}) }))
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		err = Reason(ctx, err)
		b.end()
		return nil, err
	}
	b.timer.Reset(t.idle)
	b.ReadCloser, resp.Body = resp.Body, b
	return resp, nil
}

// impatientBody is the body of a response of impatient.
type impatientBody struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	idle   time.Duration
	timer  *time.Timer
}

func (b *impatientBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.timer.Reset(b.idle)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = Reason(b.ctx, err)
	}
	return n, err
}

func (b *impatientBody) Close() error {
	b.end()
	return b.ReadCloser.Close()
}

func (b *impatientBody) end() {
	b.timer.Stop()
	b.cancel(nil)
}

// Reason is why a request ended: the cause of its context if that ended it, and otherwise
// the error without the URL, which may contain a signature by then.
func Reason(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if outer, ok := errors.AsType[*url.Error](err); ok {
		return outer.Err
	}
	return err
}
