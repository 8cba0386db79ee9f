// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	httpspdy "k8s.io/apimachinery/pkg/util/httpstream/spdy"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"

	simulated "github.com/capstan-dev/capstan/internal/simulated/etcd"
)

// oldServer returns an API server that forwards ports only over plain SPDY, to the
// members of a cluster.
func oldServer(t *testing.T, cluster *simulated.Cluster) *rest.Config {
	t.Helper()
	var running sync.WaitGroup
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pod, ok := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/kube-system/pods/etcd-")
		if !ok || r.Header.Get("Upgrade") == "websocket" {
			http.Error(w, "no websockets here", http.StatusBadRequest)
			return
		}
		if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
			return
		}
		streams := make(chan httpstream.Stream, 2)
		link := httpspdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
			streams <- s
			return nil
		})
		if link == nil {
			return
		}
		running.Go(func() {
			errs, data := <-streams, <-streams
			if errs.Headers().Get(corev1.StreamType) != corev1.StreamTypeError || data.Headers().Get(corev1.PortHeader) != "2379" {
				t.Errorf("got streams %v and %v, want the error and then the data stream of port 2379", errs.Headers(), data.Headers())
			}
			ours, theirs := net.Pipe()
			go func() { _, _ = io.Copy(ours, data) }()
			go func() { _, _ = io.Copy(data, ours) }()
			if err := cluster.Serve(strings.TrimSuffix(pod, "/portforward"), theirs); err != nil {
				_, _ = io.WriteString(errs, err.Error())
			}
			_ = errs.Close()
			<-link.CloseChan()
		})
	}))
	t.Cleanup(func() {
		s.Close()
		running.Wait()
	})
	return &rest.Config{Host: s.URL}
}

func TestPortForwardFallsBackToBareSPDY(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	cluster, _ := start(t, ca, "a", "b")
	config := oldServer(t, cluster)
	d := &Dialer{}
	c, err := d.Connect(t.Context(), Target{Cluster: "ns/prod", Config: config, CA: ca, Nodes: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	members, err := c.Members(t.Context())
	if err != nil || len(members) != 2 {
		t.Errorf("got %v, %v, want two members", members, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestPortForwardReturnsRemoteError(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	cluster, _ := start(t, ca, "a")
	d := &Dialer{}
	_, err := d.Connect(t.Context(), Target{Cluster: "ns/prod", Config: oldServer(t, cluster), CA: ca, Nodes: []string{"x"}})
	if err == nil || !strings.Contains(err.Error(), simulated.ErrNotRunning.Error()) {
		t.Errorf("got %v, want it to say %q", err, simulated.ErrNotRunning)
	}
}

func TestRefusalsWithoutEndAreCutAndMadePlain(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		for range 4 << 10 {
			if _, err := io.WriteString(w, "\x1b]0;owned\a\u202eno\n"+strings.Repeat("x", 4096)); err != nil {
				return
			}
		}
	}))
	defer s.Close()
	defer s.CloseClientConnections()
	_, err := (&Dialer{}).Connect(t.Context(), Target{Cluster: "ns/prod", Config: &rest.Config{Host: s.URL}, CA: newCA(t), Nodes: []string{"a"}})
	if err == nil || !strings.Contains(err.Error(), `\x1b]0;owned\a\u202eno x`) || len(err.Error()) > 2*maxText {
		t.Errorf("got %v, want the beginning of what it said", err)
	}
}

func TestPortForwardNeedsAnAPIServer(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	for name, config := range map[string]*rest.Config{"no configuration": nil, "the port is closed": {Host: s.URL}} {
		_, err := (&Dialer{}).Connect(t.Context(), Target{Cluster: "ns/prod", Config: config, CA: ca, Nodes: []string{"a"}})
		if err == nil || !strings.Contains(err.Error(), "member a: port-forward to its pod") {
			t.Errorf("%s: got %v, want it to name the step", name, err)
		}
		if errors.Is(err, io.EOF) {
			t.Errorf("%s: got a bare end of file: %v", name, err)
		}
	}
}
