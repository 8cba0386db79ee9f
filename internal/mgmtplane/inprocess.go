// SPDX-License-Identifier: Apache-2.0

package mgmtplane

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"
)

// inProcess returns a config whose requests call the server's handlers
// directly, with authentication, authorization and admission, but without
// TLS, HTTP/2 frames and sockets: those cost more than most requests do.
func inProcess(server *genericapiserver.GenericAPIServer) *rest.Config {
	return &rest.Config{
		Host:        "http://in-process",
		BearerToken: server.LoopbackClientConfig.BearerToken,
		Transport:   &handlerTransport{server.Handler},
		QPS:         -1,
	}
}

// handlerTransport is an http.RoundTripper that serves each request by a
// handler in a goroutine of its own.
type handlerTransport struct{ handler http.Handler }

func (t *handlerTransport) RoundTrip(req *http.Request) (*http.Response, error) {
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
	stop := context.AfterFunc(ctx, r.wake)
	go func() {
		defer stop()
		err := serve(t.handler, r, in)
		_ = in.Body.Close()
		r.finish(err)
	}()
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

// serve turns the panic with which a handler breaks off a response into an
// error, as the HTTP server does.
func serve(h http.Handler, w http.ResponseWriter, req *http.Request) (err error) {
	defer func() {
		if v := recover(); v != nil {
			if e, ok := v.(error); !ok || !errors.Is(e, http.ErrAbortHandler) {
				panic(v)
			}
			err = io.ErrUnexpectedEOF
		}
	}()
	h.ServeHTTP(w, req)
	return nil
}

// maxUnread is how much a handler may write ahead of its reader.
const maxUnread = 1 << 20

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
	unread  []byte
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
	for len(r.unread) > maxUnread && r.ctx.Err() == nil {
		r.changed.Wait()
	}
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	r.unread = append(r.unread, b...)
	r.changed.Broadcast()
	return len(b), nil
}

// Flush has nothing to do but to send the header: what is written can be read
// at once.
func (r *response) Flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.start(http.StatusOK)
}

// CloseNotify is deprecated, yet Kubernetes' wrappers of a writer want it
// beside Flush to take a writer for one of HTTP/2.
func (r *response) CloseNotify() <-chan bool {
	c := make(chan bool, 1)
	context.AfterFunc(r.ctx, func() { c <- true })
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

func (r *response) wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed.Broadcast()
}

// Read reads the body.
func (r *response) Read(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.unread) == 0 && !r.done && r.ctx.Err() == nil {
		r.changed.Wait()
	}
	switch {
	case len(r.unread) > 0:
		n := copy(b, r.unread)
		if r.unread = r.unread[n:]; len(r.unread) == 0 {
			r.unread = nil
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

// Close tells the handler that nobody reads any more.
func (r *response) Close() error {
	r.cancel()
	return nil
}

// failedChecks lists the checks of a /readyz?verbose answer that do not pass.
func failedChecks(res *http.Response) (string, error) {
	var failed []string
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "[-]"); ok {
			name, _, _ = strings.Cut(name, " ")
			failed = append(failed, name)
		}
	}
	if err := lines.Err(); err != nil {
		return "", err
	}
	return fmt.Sprintf("status %d, waiting for %s", res.StatusCode, strings.Join(failed, ", ")), nil
}
