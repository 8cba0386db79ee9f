// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
)

// TestCallsOfClusterAPIsOwnClientAreAnswered sends what the runtime client of
// Cluster API's own controllers sends, over HTTP/1.1 byte by byte: a timeout, the
// headers that net/http adds automatically, and neither Content-Type nor Accept.
func TestCallsOfClusterAPIsOwnClientAreAnswered(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ path, body, want string }{
		"discovery": {
			path: discoveryPath, want: `"name":"before-cluster-create"`,
			body: `{"kind":"DiscoveryRequest","apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1"}`,
		},
		"a handler": {
			path: beforeCreate, want: `"message":"wait for c1"`,
			body: `{"kind":"BeforeClusterCreateRequest","apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","settings":{"a":"b"},"cluster":{"metadata":{"name":"c1","namespace":"ns"},"spec":{}}}`,
		},
	}
	s := creating(t, Options{Address: "127.0.0.1:0"}, func(_ context.Context, req *createRequest, resp *createResponse) error {
		resp.Message = "wait for " + req.Cluster.Name
		return nil
	})
	start(t, s)
	c := client(t, s)
	for name, tc := range tests {
		for protocol, send := range map[string]func(*testing.T, *Server, *http.Client, string, string) *http.Response{"HTTP/1.1": sendBytes, "HTTP/2.0": sendPlainly} {
			t.Run(name+" over "+protocol, func(t *testing.T) {
				resp := send(t, s, c, tc.path+"?timeout=10s", tc.body)
				text, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				if resp.StatusCode != http.StatusOK || resp.Proto != protocol || !strings.Contains(string(text), tc.want) {
					t.Errorf("%s %d: %s, want 200 over %s with %s", resp.Proto, resp.StatusCode, text, protocol, tc.want)
				}
				if got := unmarshal[struct {
					hooksv1.DiscoveryResponse `json:",inline"`
					RetryAfterSeconds         int32 `json:"retryAfterSeconds"`
				}](t, string(text)); got.Status != hooksv1.ResponseStatusSuccess {
					t.Errorf("status %q", got.Status)
				}
			})
		}
	}
}

// sendBytes writes the request in its wire format.
func sendBytes(t *testing.T, s *Server, c *http.Client, path, body string) *http.Response {
	t.Helper()
	config := c.Transport.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos = nil
	conn, err := tls.Dial("tcp", s.Addr().String(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: %d\r\nAccept-Encoding: gzip\r\n\r\n%s",
		path, s.Addr(), len(body), body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// sendPlainly has net/http make the request, without a header of ours.
func sendPlainly(t *testing.T, s *Server, c *http.Client, path, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}
