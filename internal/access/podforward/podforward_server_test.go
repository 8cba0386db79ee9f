// SPDX-License-Identifier: Apache-2.0

package podforward

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	library "k8s.io/streaming/pkg/httpstream/spdy"
)

// forwarder is an API server without websockets, by the library of API servers. Its Pod
// sends back what it receives, or reports an error.
type forwarder struct {
	refusal  string // of the SPDY connection
	protocol string // of port-forwards
	report   string // on the error stream

	asked chan string
}

func (f *forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.asked <- r.Method + " " + r.URL.Path + " " + r.Header.Get("Authorization")
	if r.Method == http.MethodGet {
		http.Error(w, "websockets are not enabled", http.StatusBadRequest)
		return
	}
	if f.refusal != "" {
		http.Error(w, f.refusal, http.StatusForbidden)
		return
	}
	w.Header().Set(httpstream.HeaderProtocolVersion, f.protocol)
	streams := make(chan httpstream.Stream, 2)
	conn := library.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		streams <- s
		return nil
	})
	if conn == nil {
		return
	}
	defer func() { _ = conn.Close() }()
	for {
		select {
		case <-conn.CloseChan():
			return
		case s := <-streams:
			if s.Headers().Get(corev1.PortHeader) != "6443" {
				return
			}
			if s.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
				_, _ = io.WriteString(s, f.report)
				_ = s.Close()
				continue
			}
			go func() {
				_, _ = io.Copy(s, s)
				_ = s.Close()
			}()
		}
	}
}

// open connects to a Pod through a server.
func open(t *testing.T, f *forwarder) (io.ReadWriteCloser, *rest.Config, error) {
	t.Helper()
	f.asked = make(chan string, 9)
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL + "/proxied", BearerToken: "secret"}
	conn, err := OpenPod(t.Context(), config, "ns", "a", 6443)
	return conn, config, err
}

func TestOpenPodUsesSPDYWithoutWebsockets(t *testing.T) {
	t.Parallel()
	f := &forwarder{protocol: portforward.PortForwardProtocolV1Name}
	conn, _, err := open(t, f)
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"GET", "POST"} {
		if got, want := <-f.asked, method+" /proxied/api/v1/namespaces/ns/pods/a/portforward Bearer secret"; got != want {
			t.Errorf("requests %q, want %q", got, want)
		}
	}
	if _, err := io.WriteString(conn, "ping"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "ping" {
		t.Errorf("read %q, %v", got, err)
	}
	if err := conn.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if n, err := conn.Read(got); err == nil {
		t.Errorf("%d bytes are read from a closed connection", n)
	}
}

func TestOpenPodReportsWhatServerReports(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		server  forwarder
		wantErr string // of OpenPod; "" if it is that of a read
		read    string
	}{
		"it refuses":                  {server: forwarder{refusal: `pods "a" is forbidden`}, wantErr: `pods "a" is forbidden`},
		"it refuses with a long text": {server: forwarder{refusal: strings.Repeat("x", 1<<20)}, wantErr: "xxx"},
		"it has another protocol":     {server: forwarder{protocol: "portforward.k8s.io.v9"}, wantErr: `the API server speaks the port-forward protocol "portforward.k8s.io.v9", wanted "portforward.k8s.io"`},
		"the port is closed":          {server: forwarder{protocol: portforward.PortForwardProtocolV1Name, report: "dial tcp 127.0.0.1:6443: connection refused\n"}, read: "dial tcp 127.0.0.1:6443: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, _, err := open(t, &tc.server)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) || len(err.Error()) > maxReport+1<<10 {
					t.Errorf("error of %d bytes: %.200v, want %s", len(err.Error()), err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			if _, err := conn.Read(make([]byte, 9)); err == nil || err.Error() != tc.read {
				t.Errorf("read: %v, want %s", err, tc.read)
			}
		})
	}
}

func TestOpenPodNeedsServer(t *testing.T) {
	t.Parallel()
	if _, err := Open(t.Context(), nil, "a", 6443); err == nil || err.Error() != "no configuration for the API server" {
		t.Errorf("without a configuration: %v", err)
	}
	if _, err := Open(t.Context(), &rest.Config{Host: "http://127.0.0.1:1 2"}, "a", 6443); err == nil {
		t.Error("an address that is none is used")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(silent.Close)
	if _, err := OpenPod(ctx, &rest.Config{Host: silent.URL}, "ns", "a", 6443); err == nil || ctx.Err() == nil || errors.Is(err, io.EOF) {
		t.Errorf("a server that hangs: %v", err)
	}
}
