// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"context"
	"encoding/pem"
	"net/http"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/internal/builder"
)

// TestServerWithFramesOfNoSizeEndsRequests covers both implementations of HTTP/2 that are
// linked: that of net/http, for workload clusters, and golang.org/x/net/http2, which client-go
// uses for all other API servers.
func TestServerWithFramesOfNoSizeEndsRequests(t *testing.T) {
	t.Parallel()
	s := builder.ZeroFrames(t)
	cfg := &rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})}}
	ours, err := newTransport(cfg, newGuard(&budget{total: underWay}))
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := rest.TransportFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for name, transport := range map[string]http.RoundTripper{"of workload clusters": ours, "of client-go": theirs} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a client that accepts the value waits as long
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, bytes.NewReader(make([]byte, 1<<20)))
			if err != nil {
				t.Fatal(err)
			}
			if resp, err := transport.RoundTrip(req); err == nil || ctx.Err() != nil {
				t.Errorf("got %v, %v, want an error before the deadline", resp, err)
			}
		})
	}
}
