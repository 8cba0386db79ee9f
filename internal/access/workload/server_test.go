// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/certs"
)

// server is an API server for one test, reached through pipes, so that it works in
// virtual time.
type server struct {
	pipes chan net.Conn

	mu       sync.Mutex // guards the fields below
	down     bool       // connections are refused
	hangs    bool       // connections are accepted, but requests are not answered
	version  string     // the response of /version
	token    string     // the accepted token; any if empty
	nodes    []corev1.Node
	watchers []chan metav1.WatchEvent
	requests map[string]int
	hostile  func(w http.ResponseWriter, r *http.Request) bool // answers instead, if it returns true
}

// testTLS is created outside of any test's virtual time.
var testTLS = sync.OnceValue(func() (out struct {
	server tls.Certificate
	ca     []byte
}) {
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // when a synctest bubble starts
	ca, err := certs.New(certs.CA, "", start, 0)
	if err != nil {
		panic(err)
	}
	leaf, err := ca.Issue(certs.Leaf{CommonName: "api", DNSNames: []string{"demo", "good", "hanging", "*.hostile"}, Server: true, Now: start})
	if err != nil {
		panic(err)
	}
	out.ca = ca.Cert
	if out.server, err = tls.X509KeyPair(leaf.Cert, leaf.Key); err != nil {
		panic(err)
	}
	return out
})

var errRefused = errors.New("connection refused")

func startServer(t *testing.T) *server {
	t.Helper()
	s := &server{pipes: make(chan net.Conn), version: `{"major":"1","minor":"36","gitVersion":"v1.36.3"}`, requests: map[string]int{}}
	done := make(chan struct{})
	h := &http.Server{Handler: s, TLSConfig: &tls.Config{Certificates: []tls.Certificate{testTLS().server}}}
	go func() { defer close(done); _ = h.ServeTLS(pipeListener{s.pipes, t.Context().Done()}, "", "") }()
	t.Cleanup(func() { _ = h.Close(); <-done })
	return s
}

func (s *server) set(change func()) { s.mu.Lock(); defer s.mu.Unlock(); change() }

func (s *server) count(path string) int { s.mu.Lock(); defer s.mu.Unlock(); return s.requests[path] }

// dial connects as a kernel would.
func (s *server) dial(ctx context.Context) (net.Conn, error) {
	s.mu.Lock()
	down := s.down
	s.mu.Unlock()
	if down {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Source: &net.TCPAddr{Port: int(time.Now().UnixNano() % 60000)}, Err: errRefused}
	}
	ours, theirs := net.Pipe()
	select {
	case s.pipes <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests[r.URL.Path]++
	hangs, token, version, nodes := s.hangs, s.token, s.version, s.nodes
	s.mu.Unlock()
	switch {
	case hangs:
		<-r.Context().Done()
	case token != "" && r.Header.Get("Authorization") != "Bearer "+token:
		w.WriteHeader(http.StatusUnauthorized)
	case s.hostile != nil && s.hostile(w, r):
	case r.URL.Path == "/version":
		_, _ = fmt.Fprint(w, version)
	case r.URL.Query().Get("watch") != "":
		s.watch(w, r)
	case r.URL.Path == "/api/v1/nodes":
		answer(w, &corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: nodes})
	case r.URL.Path == "/api/v1/namespaces/kube-system/pods" && r.URL.Query().Get("labelSelector") == "tier=control-plane":
		answer(w, &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}})
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func answer(w http.ResponseWriter, obj runtime.Object) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(obj)
}

func (s *server) watch(w http.ResponseWriter, r *http.Request) {
	events := make(chan metav1.WatchEvent, 10)
	if r.URL.Path == "/api/v1/nodes" {
		s.set(func() { s.watchers = append(s.watchers, events) })
	}
	w.Header().Set("Content-Type", "application/json")
	w.(http.Flusher).Flush()
	for {
		select {
		case e := <-events:
			_ = json.NewEncoder(w).Encode(e)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// send sends a Node to all watches.
func (s *server) send(kind string, n corev1.Node) {
	n.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
	raw, err := json.Marshal(n)
	if err != nil {
		panic(err)
	}
	s.set(func() {
		for _, w := range s.watchers {
			w <- metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: raw}}
		}
	})
}

type pipeListener struct {
	pipes <-chan net.Conn
	done  <-chan struct{}
}

func (l pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.pipes:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (pipeListener) Close() error   { return nil }
func (pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

func testScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(s), clusterv1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	return s
}

func clusterOf(name string) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	c.Status.Initialization.InfrastructureProvisioned = new(true)
	return c
}

func kubeconfigOf(name, token string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name + "-kubeconfig"},
		Data: map[string][]byte{"value": fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: 'https://%s:6443', certificate-authority-data: %s}}]
users: [{name: u, user: {token: %s}}]
`, name, base64.StdEncoding.EncodeToString(testTLS().ca), token)}}
}

// fleet is a Cache with a management cluster around it.
type fleet struct {
	*Cache
	mgmt client.Client
}

// startFleet starts a Cache for the clusters of the given servers.
func startFleet(t *testing.T, servers map[string]*server) fleet {
	t.Helper()
	mgmt := fake.NewClientBuilder().WithScheme(testScheme(t)).WithStatusSubresource(&clusterv1.Cluster{}).Build()
	for name := range servers {
		if err := errors.Join(mgmt.Create(t.Context(), clusterOf(name)), mgmt.Create(t.Context(), kubeconfigOf(name, "first"))); err != nil {
			t.Fatal(err)
		}
	}
	c := New(Options{Mgmt: mgmt, Secrets: mgmt, Clock: clock.RealClock{}, Dial: func(ctx context.Context, _, address string) (net.Conn, error) {
		host, _, _ := net.SplitHostPort(address)
		return servers[host].dial(ctx)
	}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = c.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return fleet{c, mgmt}
}

func (f fleet) reconcile(t *testing.T, name string) {
	t.Helper()
	if _, err := f.Reconcile(t.Context(), clusterOf(name)); err != nil {
		t.Fatal(err)
	}
}
