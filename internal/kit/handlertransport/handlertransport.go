// SPDX-License-Identifier: Apache-2.0

// Package handlertransport lets an HTTP client call a server's handler in the same
// process, without a socket, TLS or frames.
//
// Limit bounds the concurrent requests of a handler; the others wait.
package handlertransport

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// Transport serves each request by a handler in a separate goroutine. The handler
// sees a request of HTTP/2 from 127.0.0.1; what it writes can be read immediately,
// so that watches work.
func Transport(h http.Handler) http.RoundTripper { return &transport{h} }

type transport struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	r := &response{header: http.Header{}, started: make(chan struct{}), ctx: ctx, cancel: cancel}
	r.changed.L = &r.mu
	in := req.Clone(ctx)
	in.Proto, in.ProtoMajor, in.ProtoMinor = "HTTP/2.0", 2, 0
	in.RequestURI, in.RemoteAddr = in.URL.RequestURI(), "127.0.0.1:0"
	if in.Host == "" {
		in.Host = in.URL.Host
	}
	if in.Body == nil {
		in.Body = http.NoBody
	}
	stop := context.AfterFunc(ctx, recovery.Func(ctx, r.broadcast))
	go recovery.Func(ctx, func() {
		defer stop()
		err := io.ErrUnexpectedEOF
		defer func() { r.finish(err) }() // also if the client's body panics
		err = serve(t.handler, r, in)
		_ = in.Body.Close()
	})()
	select {
	case <-r.started:
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	if r.status == 0 {
		return nil, r.err
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", r.status, http.StatusText(r.status)), StatusCode: r.status,
		Proto: in.Proto, ProtoMajor: in.ProtoMajor, ProtoMinor: in.ProtoMinor,
		Header: r.sent, Body: r, ContentLength: -1, Request: req,
	}, nil
}

// serve breaks off the response of a handler that panics, as the HTTP server does.
func serve(h http.Handler, w http.ResponseWriter, req *http.Request) error {
	if err := recovery.Call(req.Context(), func() error {
		h.ServeHTTP(w, req)
		return nil
	}); err != nil {
		return io.ErrUnexpectedEOF
	}
	return nil
}

const (
	// maxUnread is how much a handler may write ahead of its reader.
	maxUnread = 1 << 20
	// maxKept is how much memory a response keeps for later writes: enough for most
	// events of a watch, and little for hundreds of watches in which nothing
	// happens.
	maxKept = 32 << 10
)

// response is both ends: the handler writes to it, the client reads its body.
type response struct {
	header http.Header // the handler's
	ctx    context.Context
	cancel context.CancelFunc

	started chan struct{} // closed when status and sent are set

	mu      sync.Mutex // guards what follows
	changed sync.Cond
	status  int
	sent    http.Header
	unread  bytes.Buffer
	done    bool
	err     error
}

func (r *response) Header() http.Header { return r.header }

func (r *response) WriteHeader(status int) {
	if status >= 100 && status < 200 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.start(status)
}

// start must be called with the lock held.
func (r *response) start(status int) {
	if r.status != 0 {
		return
	}
	r.status, r.sent = status, r.header.Clone()
	close(r.started)
}

func (r *response) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.start(http.StatusOK)
	for r.unread.Len() > maxUnread && r.ctx.Err() == nil {
		r.changed.Wait()
	}
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	_, _ = r.unread.Write(b) // never fails
	r.changed.Broadcast()
	return len(b), nil
}

// Flush only sends the header: what is written can be read immediately.
func (r *response) Flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.start(http.StatusOK)
}

// CloseNotify is deprecated, but Kubernetes' wrappers of a writer require it in
// addition to Flush to treat a writer as one of HTTP/2.
func (r *response) CloseNotify() <-chan bool {
	c := make(chan bool, 1)
	context.AfterFunc(r.ctx, recovery.Func(r.ctx, func() { c <- true }))
	return c
}

// finish is called when the handler has returned.
func (r *response) finish(err error) {
	defer r.cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done, r.err = true, err
	if r.status == 0 && err != nil {
		close(r.started)
	} else {
		r.start(http.StatusOK)
	}
	r.changed.Broadcast()
}

func (r *response) broadcast() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed.Broadcast()
}

// Read reads the body.
func (r *response) Read(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.unread.Len() == 0 && !r.done && r.ctx.Err() == nil {
		r.changed.Wait()
	}
	switch {
	case r.unread.Len() > 0:
		n, _ := r.unread.Read(b) // fails only when there is nothing
		if r.unread.Len() == 0 && r.unread.Cap() > maxKept {
			r.unread = bytes.Buffer{}
		}
		r.changed.Broadcast()
		return n, nil
	case r.done && r.err != nil:
		return 0, r.err
	case r.done:
		return 0, io.EOF
	}
	return 0, r.ctx.Err()
}

// Close notifies the handler that the response is no longer read.
func (r *response) Close() error {
	r.cancel()
	return nil
}

// Limit lets next serve at most n of the requests for which counts returns true at
// the same time. The others wait in the order of their arrival, or until their
// context ends.
//
// Waiting here is better than working together. The goroutines that send changes to
// the watchers are few, and each of them competes for the processor with every
// request in service: with a hundred of those, the watchers fall behind, act on
// stale state, and write even more.
func Limit(next http.Handler, n int, counts func(*http.Request) bool) http.Handler {
	slots := make(chan struct{}, n)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !counts(r) {
			next.ServeHTTP(w, r)
			return
		}
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			next.ServeHTTP(w, r)
		case <-r.Context().Done():
			http.Error(w, "the request ended before its turn came", http.StatusServiceUnavailable)
		}
	})
}

// LimitYAML refuses requests with YAML that aliases make much larger: an API server converts
// all of it to JSON, for any authenticated client. A body of more than maxBody bytes is left
// to next, which must not read more either.
func LimitYAML(next http.Handler, maxBody int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(strings.ToLower(r.Header.Get("Content-Type")), "yaml") {
			next.ServeHTTP(w, r)
			return
		}
		text, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
		if err == nil && int64(len(text)) <= maxBody {
			err = sanitize.CheckYAML(text)
		}
		if err != nil {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			status := apierrors.NewBadRequest(fmt.Sprintf("the body of the request is %v", err)).Status()
			status.APIVersion, status.Kind = "v1", "Status"
			_ = json.NewEncoder(w).Encode(status) // the client may have disconnected
			return
		}
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(text), r.Body), r.Body}
		next.ServeHTTP(w, r)
	})
}
