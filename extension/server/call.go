// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"os"
	goruntime "runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
)

// codeGone is the code in logs and metrics of a call that ends before its answer, because
// the caller disconnected or the server could not wait any longer.
const codeGone = 499

// ServeHTTP answers one call, or a health check. Calls that follow the protocol are
// answered with 200 and a response whose status is their result. Others are refused in
// plain text:
//
//	404  nothing is served at the path; the text lists what is
//	405  the method is not POST
//	415  the content type of the body is not application/json, or the body is
//	     compressed; without a content type it is JSON
//	413  the body is too large
//	408  the body does not arrive before the deadline
//	400  the timeout is not valid, or the body is not JSON, or not the
//	     request of this hook and version; a body without apiVersion and kind
//	     is treated as the request of the path, and unknown fields are ignored
//	429  too many calls are in progress: try again after Retry-After
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == healthPath || r.URL.Path == readyPath {
		s.serveHealth(w, r)
		return
	}
	began := s.clock.Now()
	c := &call{}
	a := s.answer(w, r, c)
	a.write(w)
	took := s.clock.Since(began)
	s.metrics.observe(c.route, a, took)
	s.logCall(c, a, took)
}

// answer is what is returned to the caller.
type answer struct {
	code       int
	header     [2]string // one more header, if any
	body       []byte
	status     hooksv1.ResponseStatus // with code 200
	message    string                 // that of the response, or the reason why the call is refused
	retryAfter int32                  // of a blocking response
}

func (a answer) write(w http.ResponseWriter) {
	if a.code == codeGone { // or the server cuts it off, and then this may still arrive
		a.code = http.StatusServiceUnavailable
	}
	if a.header[0] != "" {
		w.Header().Set(a.header[0], a.header[1])
	}
	if a.code != http.StatusOK {
		http.Error(w, a.message, a.code)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", fmt.Sprint(len(a.body)))
	_, _ = w.Write(a.body) // the caller has disconnected: an error has no receiver
}

// refuse answers a call that does not reach a handler.
func refuse(code int, format string, args ...any) *answer {
	return &answer{code: code, message: fmt.Sprintf(format, args...)}
}

// with adds a header.
func (a *answer) with(key, value string) *answer {
	a.header = [2]string{key, value}
	return a
}

// answer handles a call from its first line to its response, and fills in c as far as it
// gets.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, c *call) answer {
	timeout, refused := s.accept(r, c)
	if refused != nil {
		return *refused
	}
	release, refused := s.acquire(c.route)
	if refused != nil {
		return *refused
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	s.metrics.begin(c.route)
	body, refused := s.read(w, r, timeout)
	if refused == nil {
		refused = c.decode(body)
	}
	ended := func() {
		s.metrics.end(c.route)
		release()
	}
	if refused != nil {
		ended()
		return *refused
	}
	done := s.perform(logr.NewContext(ctx, s.log.WithValues(c.about...)), c, ended)
	var a answer
	select {
	case a = <-done:
	case <-ctx.Done():
		select {
		case a = <-done:
		default:
		}
	}
	switch late := ctx.Err() != nil && a.status != hooksv1.ResponseStatusSuccess; {
	case r.Context().Err() != nil:
		return answer{code: codeGone, message: "the call ended before its answer"}
	case late: // also where the handler noticed it first, and returned its own message
		return s.failure(c.route, fmt.Sprintf("handler %q did not answer within %s", c.route.name, timeout))
	}
	return a
}

// perform calls the handler, which may continue after its caller has disconnected. Start
// waits for it: it holds its slot until it has ended, in any way.
func (s *Server) perform(ctx context.Context, c *call, ended func()) <-chan answer {
	done := make(chan answer, 1)
	go func() {
		var a *answer
		defer func() {
			if a == nil {
				a = new(s.crashed(ctx, c.route, recover()))
			}
			ended()
			done <- *a
		}()
		a = new(s.finish(c, c.handle(ctx)))
	}()
	return done
}

// accept finds the route of a call and checks everything that precedes the body.
func (s *Server) accept(r *http.Request, c *call) (time.Duration, *answer) {
	var known bool
	s.mu.RLock()
	c.route, known = s.routes[r.URL.Path]
	s.mu.RUnlock()
	if !known {
		return 0, refuse(http.StatusNotFound, "nothing is served at %q\nserved are:\n%s", shorten(r.URL.Path, 256), strings.Join(s.paths(), "\n"))
	}
	c.about = c.route.about(nil)
	if r.Method != http.MethodPost {
		return 0, refuse(http.StatusMethodNotAllowed, "hooks are called with POST, not %s", shorten(r.Method, 32)).with("Allow", http.MethodPost)
	}
	if sent := r.Header.Get("Content-Type"); !isJSON(sent) {
		return 0, refuse(http.StatusUnsupportedMediaType, "the content type is %q: send application/json", shorten(sent, 64))
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return 0, refuse(http.StatusUnsupportedMediaType, "the body is encoded as %q: send it as it is", shorten(encoding, 64))
	}
	timeout, err := c.route.deadline(r.URL.Query().Get("timeout"))
	if err != nil {
		return 0, refuse(http.StatusBadRequest, "%v", err)
	}
	if r.ContentLength > s.options.MaxRequestBytes {
		return 0, s.tooLarge()
	}
	return timeout, nil
}

// isJSON accepts a body without a content type: the runtime client with which management
// clusters call extensions sets none.
func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == "application/json"
}

// paths are those of the hooks that are served.
func (s *Server) paths() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.routes))
}

func (s *Server) tooLarge() *answer {
	return refuse(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", s.options.MaxRequestBytes)
}

// acquire takes a slot, if one is free.
func (s *Server) acquire(r *route) (release func(), refused *answer) {
	if r.uncounted {
		return func() {}, nil
	}
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots }, nil
	default:
		return nil, refuse(http.StatusTooManyRequests, "%d calls are being worked on, which is all this server takes: try again", cap(s.slots)).with("Retry-After", "1")
	}
}

// read reads the body, which is bounded in size and time.
func (s *Server) read(w http.ResponseWriter, r *http.Request, timeout time.Duration) ([]byte, *answer) {
	control := http.NewResponseController(w)
	// A writer that does not support deadlines is not that of a network connection.
	_ = control.SetReadDeadline(time.Now().Add(timeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.options.MaxRequestBytes))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, s.tooLarge()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		// The deadline stays, so that the server does not wait for the rest of the body.
		return nil, refuse(http.StatusRequestTimeout, "the body did not arrive within %s", timeout).with("Connection", "close")
	}
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "read the body: %v", err)
	}
	_ = control.SetReadDeadline(time.Time{})
	return body, nil
}

// decode decodes the request from the body.
func (c *call) decode(body []byte) *answer {
	switch text := bytes.TrimSpace(body); {
	case len(text) == 0:
		return refuse(http.StatusBadRequest, "the body is empty: send a %s", c.route.hook.Request.Kind)
	case text[0] != '{':
		return refuse(http.StatusBadRequest, "the body is not a JSON object: send a %s", c.route.hook.Request.Kind)
	}
	fresh := c.route.newCall()
	c.request, c.response, c.handle = fresh.request, fresh.response, fresh.handle
	err := kjson.UnmarshalCaseSensitivePreserveInts(body, c.request)
	if why := mismatch(typeOf(c.request, body, err), c.route.hook.Request); why != "" {
		return refuse(http.StatusBadRequest, "%s", why)
	}
	if err != nil {
		return refuse(http.StatusBadRequest, "the body is not the JSON of a %s: %s", c.route.hook.Request.Kind, shorten(err.Error(), maxMessage))
	}
	c.request.GetObjectKind().SetGroupVersionKind(c.route.hook.Request)
	c.about = c.route.about(c.request)
	return nil
}

// typeOf is the type in the body, if it can be read. Decoding a body of another kind may
// fail at an unrelated field, so the type of such a body is read separately.
func typeOf(request runtime.Object, body []byte, err error) metav1.TypeMeta {
	var sent metav1.TypeMeta
	if meta, ok := request.GetObjectKind().(*metav1.TypeMeta); ok && err == nil {
		sent = *meta
	} else if kjson.UnmarshalCaseSensitivePreserveInts(body, &sent) != nil {
		return metav1.TypeMeta{}
	}
	return sent
}

// mismatch describes how the type that was sent differs from that of the path.
func mismatch(sent metav1.TypeMeta, want schema.GroupVersionKind) string {
	if sent.APIVersion != "" && sent.APIVersion != want.GroupVersion().String() {
		return fmt.Sprintf("the apiVersion is %q, but this path takes %s", shorten(sent.APIVersion, 128), want.GroupVersion())
	}
	if sent.Kind != "" && sent.Kind != want.Kind {
		return fmt.Sprintf("the kind is %q, but this path takes %s", shorten(sent.Kind, 128), want.Kind)
	}
	return ""
}

// finish turns the result of the handler into an answer.
func (s *Server) finish(c *call, err error) answer {
	if err != nil {
		return s.failure(c.route, err.Error())
	}
	resp := c.response
	a := answer{code: http.StatusOK}
	if retry, ok := resp.(hooksv1.RetryResponseObject); ok {
		a.retryAfter = retry.GetRetryAfterSeconds()
	}
	switch status := resp.GetStatus(); {
	case a.retryAfter < 0:
		return s.failure(c.route, fmt.Sprintf("handler %q set retryAfterSeconds to %d, which is negative", c.route.name, a.retryAfter))
	case status == "":
		resp.SetStatus(hooksv1.ResponseStatusSuccess)
	case status == hooksv1.ResponseStatusFailure && resp.GetMessage() == "":
		resp.SetMessage(fmt.Sprintf("handler %q answered Failure and did not say why", c.route.name))
	case status != hooksv1.ResponseStatusSuccess && status != hooksv1.ResponseStatusFailure:
		return s.failure(c.route, fmt.Sprintf("handler %q set the status %q, which is neither Success nor Failure", c.route.name, shorten(string(status), 64)))
	}
	resp.GetObjectKind().SetGroupVersionKind(c.route.hook.Response)
	if a.body, err = json.Marshal(resp); err != nil {
		return s.failure(c.route, fmt.Sprintf("encode the response of handler %q: %v", c.route.name, err))
	}
	if int64(len(a.body)) > s.options.MaxRequestBytes {
		return s.failure(c.route, fmt.Sprintf("the response of handler %q has %d bytes, more than the %d that are allowed", c.route.name, len(a.body), s.options.MaxRequestBytes))
	}
	a.status, a.message = resp.GetStatus(), resp.GetMessage()
	return a
}

// failure answers with a response that contains only the reason of the failure.
func (s *Server) failure(r *route, why string) answer {
	resp := r.newCall().response
	resp.GetObjectKind().SetGroupVersionKind(r.hook.Response)
	resp.SetStatus(hooksv1.ResponseStatusFailure)
	resp.SetMessage(why)
	body, err := json.Marshal(resp)
	if err != nil {
		return answer{code: http.StatusInternalServerError, message: fmt.Sprintf("encode a %s: %v", r.hook.Response.Kind, err)}
	}
	return answer{code: http.StatusOK, body: body, status: hooksv1.ResponseStatusFailure, message: why}
}

// crashed answers for a handler that panicked, or ended its goroutine. The
// value of a panic is any text, so only that of the Go runtime is sent.
func (s *Server) crashed(ctx context.Context, r *route, value any) answer {
	log := logr.FromContextOrDiscard(ctx)
	stack := string(debug.Stack())
	if value == nil {
		log.Error(nil, "Handler ended its goroutine", "stack", stack)
		return s.failure(r, fmt.Sprintf("handler %q ended without an answer", r.name))
	}
	log.Error(nil, "Handler panicked", "panic", fmt.Sprint(value), "stack", stack)
	why := fmt.Sprintf("handler %q panicked", r.name)
	if err, ok := value.(goruntime.Error); ok {
		why += ": " + err.Error()
	}
	return s.failure(r, why)
}

// shorten truncates text whose length another party chose.
func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
