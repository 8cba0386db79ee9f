// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// server responds according to its routes, and records the requests.
type server struct {
	*httptest.Server
	mu     sync.Mutex
	routes map[string]http.HandlerFunc
	asked  []string
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{routes: map[string]http.HandlerFunc{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := r.URL.RequestURI()
		s.mu.Lock()
		s.asked = append(s.asked, at)
		handle := s.routes[at]
		s.mu.Unlock()
		if handle == nil {
			http.NotFound(w, r)
			return
		}
		handle(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// on defines how a request is answered.
func (s *server) on(at string, handle http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.routes[at] = handle
}

// text answers with a text.
func (s *server) text(at, text string) {
	s.on(at, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
}

// takeAsked returns the requests since the last call.
func (s *server) takeAsked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

// answerWith answers with a status and headers "Name: value".
func answerWith(status int, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, "answer %d\nsecond line", status)
	}
}

// inTurn answers each request with the next handler, and with the last for ever.
func inTurn(handlers ...http.HandlerFunc) http.HandlerFunc {
	var mu sync.Mutex
	return func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		h := handlers[0]
		if len(handlers) > 1 {
			handlers = handlers[1:]
		}
		mu.Unlock()
		h(w, r)
	}
}

func say(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
}

// cutOff promises more than it sends.
func cutOff(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "100")
	_, _ = w.Write([]byte("half"))
}

// silent sends a start and then nothing, until the client closes the connection.
func silent(w http.ResponseWriter, r *http.Request) {
	_, _ = w.Write([]byte("half"))
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

// endless sends for as long as the client reads.
func endless(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead {
		return
	}
	for block := make([]byte, 1<<20); r.Context().Err() == nil; {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

// at returns the options with which a server represents GitHub and its API, without delay
// between tries. Settings are pairs.
func at(s *server, settings ...string) Options {
	all := map[string]string{"capstan-github-url": s.URL + "/web", "capstan-github-api-url": s.URL + "/api"}
	for i := 0; i < len(settings); i += 2 {
		all[settings[i]] = settings[i+1]
	}
	return Options{
		Variable: func(name string) (string, bool) {
			v, ok := all[name]
			return v, ok
		},
		Pause: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	}
}
