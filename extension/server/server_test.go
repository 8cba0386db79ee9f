// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
)

const (
	beforeCreate     = "/hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclustercreate/before-cluster-create"
	beforeCreateBody = `{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"BeforeClusterCreateRequest","cluster":{"metadata":{"namespace":"ns","name":"c1"}}}`
	discoveryPath    = "/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery"
	discoveryBody    = `{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"DiscoveryRequest"}`
)

type (
	createRequest  = hooksv1.BeforeClusterCreateRequest
	createResponse = hooksv1.BeforeClusterCreateResponse
)

func mustNew(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// creating is a server whose only handler answers BeforeClusterCreate.
func creating(t *testing.T, o Options, handle func(context.Context, *createRequest, *createResponse) error, opts ...HandlerOption) *Server {
	t.Helper()
	s := mustNew(t, o)
	if err := Handle(s, hooksv1.BeforeClusterCreate, handle, opts...); err != nil {
		t.Fatal(err)
	}
	return s
}

// start serves until the test ends, or stop is called; stop returns what Start
// does.
func start(t *testing.T, s *Server) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- s.Start(ctx) }()
	select {
	case <-s.Ready():
	case err := <-result:
		t.Fatalf("start: %v", err)
	}
	ended := false
	stop = func() error {
		if ended {
			return nil
		}
		ended = true
		cancel()
		return <-result
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

// client trusts the server's generated authority.
func client(t *testing.T, s *Server, certs ...tls.Certificate) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(s.CABundle()) {
		t.Fatal("the CA bundle holds no certificate")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: certs}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func post(t *testing.T, c *http.Client, url, body string) (int, string) {
	t.Helper()
	resp, err := c.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func unmarshal[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

func TestServerAnswersOverTLSUntilItIsStopped(t *testing.T) {
	t.Parallel()
	s := creating(t, Options{Address: "127.0.0.1:0"}, func(_ context.Context, req *createRequest, resp *createResponse) error {
		resp.Message, resp.RetryAfterSeconds = "wait for "+req.Cluster.Name, 7
		return nil
	})
	stop := start(t, s)
	code, text := post(t, client(t, s), s.URL()+beforeCreate+"?timeout=10s", beforeCreateBody)
	if code != http.StatusOK {
		t.Fatalf("code %d: %s", code, text)
	}
	got := unmarshal[createResponse](t, text)
	if got.Kind != "BeforeClusterCreateResponse" || got.APIVersion != "hooks.runtime.cluster.x-k8s.io/v1alpha1" ||
		got.Status != hooksv1.ResponseStatusSuccess || got.Message != "wait for c1" || got.RetryAfterSeconds != 7 {
		t.Errorf("got %s", text)
	}
	if err := stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
}
