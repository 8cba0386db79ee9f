// SPDX-License-Identifier: Apache-2.0

// Package apiserver simulates the API server of one simulated cluster, in memory.
// Thousands run in one process. For what kubectl, client-go and controllers of
// clusters use it behaves as a real one: discovery, selectors, watches, patches of
// every kind, conflicts, finalizers, ownership, evictions, port-forwarding,
// authentication and authorization.
//
// Behind it runs only the garbage collection of objects and namespaces. The
// simulation of machines and package workloads write what kubelets, the scheduler
// and controllers would, through the Store.
package apiserver

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/access"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/requestmetrics"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

// Store is the cluster's objects, for the simulation of its machines.
type Store = objects.Store

// Object is what a Store takes and gives.
type Object = objects.Object

// Fault is how an API server fails its clients: a set of ways.
type Fault int32

// The faults.
const (
	None       Fault = 0
	Hang       Fault = 1 << iota // a request is taken and never answered
	Refuse                       // connections are closed
	Slow                         // a request is answered late
	CutWatches                   // a watch ends as soon as it has started
	Full                         // etcd has no space left: nothing is stored
)

// Has reports whether one way is in the set.
func (f Fault) Has(way Fault) bool { return f&way != 0 }

// late is by how much an answer is that is Slow.
const late = 2 * time.Second

// Options is what a Server needs. Name, Version, Clock and Log are required.
type Options struct {
	Name    string             // of the cluster, for logs
	Version func() string      // the Kubernetes version reported now, as in v1.34.2
	Clock   clock.PassiveClock // for timestamps and expiry
	Log     logr.Logger
	Journal store.Journal // keeps the objects; nil loses them with the process

	// PortForward serves one connection to a port of a Pod until it is closed
	// or ctx ends. Nil refuses port-forwarding.
	PortForward func(ctx context.Context, namespace, pod string, port int32, stream io.ReadWriteCloser) error

	// Answer returns how the server behaves now; nil is None. Call Recheck when the
	// result changes.
	Answer func() Fault
}

// Server is one cluster's API server. It is an http.Handler; Listeners give it
// an address.
type Server struct {
	name        string
	version     func() string
	clock       clock.PassiveClock
	log         logr.Logger
	portForward func(ctx context.Context, namespace, pod string, port int32, stream io.ReadWriteCloser) error
	answer      func() Fault

	objects *objects.Store
	authn   *access.Authenticator
	authz   *access.Authorizer
	counted requestmetrics.Requests
	serving atomic.Int64 // requests, except long-running ones
	watches atomic.Int64

	closed context.Context // done when the server is closed
	close  context.CancelFunc

	mu      sync.Mutex // guards all below
	tls     *tls.Config
	conns   map[io.Closer]struct{}
	recheck chan struct{} // closed and replaced when faults may have changed
}

// Trust is the server's identity, and the authorities for its clients.
type Trust struct {
	Serving           tls.Certificate
	ClientCAs         *x509.CertPool
	ServiceAccountKey crypto.Signer // nil refuses service account tokens
}

// New returns a server with the objects kept in the journal. It answers after the
// first call of Trust.
func New(o Options) (*Server, error) {
	if o.Version == nil || o.Clock == nil {
		return nil, errors.New("apiserver: Version and Clock are required")
	}
	objs, err := objects.Open(objects.Options{Clock: o.Clock, Log: o.Log, Journal: o.Journal})
	if err != nil {
		return nil, fmt.Errorf("open the objects of cluster %s: %w", o.Name, err)
	}
	s := &Server{
		name: o.Name, version: o.Version, clock: o.Clock, log: o.Log, portForward: o.PortForward, answer: o.Answer,
		objects: objs,
		authn:   access.NewAuthenticator(objs, o.Clock),
		authz:   access.NewAuthorizer(objs),
		conns:   map[io.Closer]struct{}{},
		recheck: make(chan struct{}),
	}
	if s.answer == nil {
		s.answer = func() Fault { return None }
	}
	s.closed, s.close = context.WithCancel(context.Background())
	return s, nil
}

// Store gives access to the cluster's objects without a request.
func (s *Server) Store() *Store { return s.objects }

// Trust sets, or replaces, the server's certificate and the authorities for its
// clients.
func (s *Server) Trust(t Trust) {
	s.authn.Trust(t.ClientCAs, t.ServiceAccountKey)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tls = &tls.Config{
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"h2", "http/1.1"},
		Certificates: []tls.Certificate{t.Serving},
		ClientAuth:   tls.RequestClientCert, // verified for each request, so that the refusal is a 401
		ClientCAs:    t.ClientCAs,
	}
}

// Token returns the user of a bearer token, as a machine that joins with it
// requires. The error is access.ErrUnauthorized if the token is not valid.
func (s *Server) Token(token string) (access.User, error) { return s.authn.Token(token) }

// Recheck notifies waiting requests and open connections that Answer has changed.
func (s *Server) Recheck() {
	refuse := s.answer().Has(Refuse)
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.recheck)
	s.recheck = make(chan struct{})
	if refuse {
		s.drop()
	}
}

// Close ends every watch and connection. The store stays as it is.
func (s *Server) Close() {
	s.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop()
}

// ctx has the server's logger, for goroutines.
func (s *Server) ctx() context.Context {
	return logr.NewContext(s.closed, s.log.WithValues("cluster", s.name))
}

// drop closes the connections; the lock must be held.
func (s *Server) drop() {
	for c := range s.conns {
		_ = c.Close() // it is closed either way
	}
	clear(s.conns)
}

func (s *Server) tlsConfig() (*tls.Config, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tls == nil {
		return nil, fmt.Errorf("cluster %s has no certificate yet", s.name)
	}
	return s.tls, nil
}

// hangPoll is how soon a waiting request notices the end of a fault that Recheck
// has not reported.
const hangPoll = 500 * time.Millisecond

// admitted waits while the server hangs. It is false when the request must not
// be answered at all.
func (s *Server) admitted(ctx context.Context) bool {
	for {
		recheck := s.rechecked()
		switch answer := s.answer(); {
		case answer.Has(Refuse):
			return false
		case !answer.Has(Hang):
			return true
		}
		if !s.wait(ctx, hangPoll, recheck) {
			return false
		}
	}
}

// rechecked is closed by the next Recheck.
func (s *Server) rechecked() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.recheck
}

// wait takes some time, or less if something else happens. It returns false when no
// client waits for an answer any longer.
func (s *Server) wait(ctx context.Context, d time.Duration, until <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-until:
	case <-timer.C:
	case <-ctx.Done():
		return false
	case <-s.closed.Done():
		return false
	}
	return true
}

// The limits of concurrent requests of one server. A real one has the first limit
// too; watches are bounded there by its machine's memory, which this one shares
// with all.
const (
	maxServing = 600
	maxWatches = 4096
)

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := recovery.Call(logr.NewContext(r.Context(), s.log.WithValues("method", r.Method, "path", r.URL.Path)), func() error {
		s.serve(w, r)
		return nil
	})
	switch {
	case errors.Is(err, http.ErrAbortHandler):
		panic(http.ErrAbortHandler)
	case err != nil:
		respondError(w, errors.New("this request caused the simulated API server to panic"))
	}
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if s.answer().Has(Slow) && !s.wait(r.Context(), late, s.rechecked()) || !s.admitted(r.Context()) {
		panic(http.ErrAbortHandler)
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	user, err := s.authn.User(r)
	if err != nil {
		respondError(w, unauthorized())
		return
	}
	if user, err = s.impersonated(r, user); err != nil {
		respondError(w, err)
		return
	}
	req := s.parse(r)
	req.user = user
	if !s.authz.May(user, req.attributes()) {
		respondError(w, forbidden(user, req))
		return
	}
	if n := s.serving.Add(1); n > maxServing {
		s.serving.Add(-1)
		respondError(w, apierrors.NewTooManyRequests("too many requests, please try again later", 1))
		return
	}
	if req.verb == "watch" || req.sub == "portforward" {
		s.serving.Add(-1) // it lasts
	} else {
		defer s.serving.Add(-1)
	}
	rec := &recorder{ResponseWriter: w, code: http.StatusOK}
	defer func() { s.count(req, rec.code) }()
	if req.sub == "portforward" { // it takes the connection over, which a recorder cannot
		err = s.route(w, req)
	} else {
		err = s.route(rec, req)
	}
	if err != nil {
		respondError(rec, err)
	}
}
