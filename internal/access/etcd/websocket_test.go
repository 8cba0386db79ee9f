// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver"
	simulated "github.com/capstan-dev/capstan/internal/simulated/etcd"
)

// newServer returns a current API server in front of a cluster's etcd. It counts
// the websockets.
func newServer(tb testing.TB, cluster *simulated.Cluster, pods ...string) (*rest.Config, *atomic.Int32) {
	tb.Helper()
	ca, err := certs.New(certs.CA, "", time.Now(), 0)
	if err != nil {
		tb.Fatal(err)
	}
	admin, err := ca.Issue(certs.Leaf{CommonName: "admin", Organization: []string{"system:masters"}, Client: true, Now: time.Now()})
	if err != nil {
		tb.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.Cert)
	api, err := apiserver.New(apiserver.Options{
		Name: "ns/prod", Version: func() string { return "v1.36.3" }, Clock: clock.RealClock{}, Log: logr.Discard(),
		PortForward: func(_ context.Context, _, pod string, _ int32, stream io.ReadWriteCloser) error {
			return cluster.Serve(pod[len("etcd-"):], simulated.Conn(stream))
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	api.Trust(apiserver.Trust{ClientCAs: pool})
	for _, name := range pods {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "etcd", Image: "etcd"}}}}
		if err := api.Store().Add(pod); err != nil {
			tb.Fatal(err)
		}
	}
	var websockets atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "websocket" {
			websockets.Add(1)
		}
		api.ServeHTTP(w, r)
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	tb.Cleanup(func() {
		api.Close()
		s.Close()
	})
	return &rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true, CertData: admin.Cert, KeyData: admin.Key}}, &websockets
}

func TestPortForwardPrefersAWebsocket(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	cluster, _ := start(t, ca, "a", "b")
	config, websockets := newServer(t, cluster, "etcd-a", "etcd-b")
	d := &Dialer{}
	c, err := d.Connect(t.Context(), Target{Cluster: "ns/prod", Config: config, CA: ca, Nodes: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if members, err := c.Members(t.Context()); err != nil || len(members) != 2 {
			t.Errorf("got %v, %v, want two members", members, err)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if got := websockets.Load(); got != 1 {
		t.Errorf("got %d websockets, want one for all calls", got)
	}
}

// TestPortForwardDialsAsTheConfigurationSays connects to an API server that only
// its dialer can reach, like one behind a Service of the plane.
func TestPortForwardDialsAsTheConfigurationSays(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	cluster, _ := start(t, ca, "a")
	today, _ := newServer(t, cluster, "etcd-a")
	for name, config := range map[string]*rest.Config{"a websocket": today, "bare SPDY": oldServer(t, cluster)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := rest.CopyConfig(config)
			at, err := url.Parse(config.Host)
			if err != nil {
				t.Fatal(err)
			}
			config.Host = at.Scheme + "://c1.clusters.svc:6443"
			var dialled atomic.Int32
			config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				if address != "c1.clusters.svc:6443" {
					t.Errorf("dialled %s", address)
				}
				dialled.Add(1)
				return new(net.Dialer).DialContext(ctx, network, at.Host)
			}
			c, err := new(Dialer).Connect(t.Context(), Target{Cluster: "ns/prod", Config: config, CA: ca, Nodes: []string{"a"}})
			if err != nil {
				t.Fatal(err)
			}
			if members, err := c.Members(t.Context()); err != nil || len(members) != 1 || dialled.Load() == 0 {
				t.Errorf("got %v, %v after %d connections, want one member", members, err, dialled.Load())
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// BenchmarkConnect measures the cost of one check of the members of an etcd.
func BenchmarkConnect(b *testing.B) {
	ca, err := certs.New(certs.Etcd, "", time.Now(), 0)
	if err != nil {
		b.Fatal(err)
	}
	cluster, err := simulated.New(simulated.Options{Name: "bench", CA: ca})
	if err != nil {
		b.Fatal(err)
	}
	if err := cluster.Bootstrap("a", "https://a:2380", "https://a:2379"); err != nil {
		b.Fatal(err)
	}
	config, _ := newServer(b, cluster, "etcd-a")
	d := &Dialer{}
	for b.Loop() {
		c, err := d.Connect(context.Background(), Target{Cluster: "ns/prod", Config: config, CA: ca, Nodes: []string{"a"}})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := c.Members(context.Background()); err != nil {
			b.Fatal(err)
		}
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
