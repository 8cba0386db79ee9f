// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/internal/access/extensions"
	"github.com/capstan-dev/capstan/internal/access/extensions/transport"
)

// extraAllocs is how many allocations the client may add to a call over plain
// net/http with the same body.
const extraAllocs = 60

const goOn = `{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"BeforeClusterCreateResponse","status":"Success","message":"continue","retryAfterSeconds":0}`

// calling is a client with one extension, and the same call by plain net/http.
type calling struct {
	client  *extensions.Client
	request *hooksv1.BeforeClusterCreateRequest
	cluster *clusterv1.Cluster
	plain   *http.Client
	url     string
	body    []byte
}

func newCalling(tb testing.TB, http2 bool) *calling {
	tb.Helper()
	server := httptest.NewUnstartedServer(answering(0))
	server.EnableHTTP2 = http2
	server.StartTLS()
	tb.Cleanup(server.Close)
	c := &calling{cluster: fleetCluster(), url: server.URL + "/hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclustercreate/h?timeout=10s"}
	c.client = newClient(tb, map[string]*httptest.Server{"ext": server})
	c.request = &hooksv1.BeforeClusterCreateRequest{Cluster: *c.cluster}
	c.request.Settings = map[string]string{"region": "eu", "tier": "gold"}
	sent := c.request.DeepCopy()
	sent.SetGroupVersionKind(hooksv1.GroupVersion().WithKind("BeforeClusterCreateRequest"))
	var err error
	if c.body, err = json.Marshal(sent); err != nil {
		tb.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	rt := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	tb.Cleanup(rt.CloseIdleConnections)
	c.plain = &http.Client{Transport: rt}
	return c
}

// answering answers every request after a delay.
func answering(after time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if after > 0 {
			select {
			case <-time.After(after):
			case <-r.Context().Done():
				return
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, goOn)
	}
}

// newClient registers one handler, h, for each server.
func newClient(tb testing.TB, servers map[string]*httptest.Server) *extensions.Client {
	tb.Helper()
	pool, err := transport.New(transport.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	registry := extensions.NewRegistry(catalog.Default())
	registry.Expect()
	client, err := extensions.New(extensions.Options{Catalog: catalog.Default(), Registry: registry, Transport: pool, Metrics: prometheus.NewRegistry()})
	if err != nil {
		tb.Fatal(err)
	}
	for name, server := range servers {
		config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: name}}
		config.Spec.ClientConfig.URL = server.URL
		config.Spec.ClientConfig.CABundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
		config.Status.Handlers = []runtimev1.ExtensionHandler{{
			Name:           "h." + name,
			RequestHook:    runtimev1.GroupVersionHook{APIVersion: hooksv1.GroupVersion().String(), Hook: "BeforeClusterCreate"},
			TimeoutSeconds: 30,
		}}
		if err := registry.Set(config); err != nil {
			tb.Fatal(err)
		}
	}
	return client
}

// fleetCluster is a typical Cluster of a fleet: of a class, with variables.
func fleetCluster() *clusterv1.Cluster {
	c := &clusterv1.Cluster{
		TypeMeta: metav1.TypeMeta{APIVersion: clusterv1.GroupVersion().String(), Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "demo", Namespace: "default", UID: "9d3f7a7e-8a44-4d6a-9e0c-1f6a3a1f0001", ResourceVersion: "123456",
			Labels: map[string]string{"env": "prod", "team": "a"}, CreationTimestamp: metav1.Unix(1_790_000_000, 0),
		},
	}
	c.Spec.Topology.ClassRef.Name, c.Spec.Topology.Version = "fleet", "v1.36.0"
	c.Spec.Topology.ControlPlane.Replicas = new(int32(3))
	for i := range 4 {
		c.Spec.Topology.Variables = append(c.Spec.Topology.Variables, clusterv1.ClusterVariable{
			Name: fmt.Sprintf("variable-%d", i), Value: apiextensionsv1.JSON{Raw: []byte(`{"size":"large"}`)},
		})
	}
	return c
}

func (c *calling) call(ctx context.Context) error {
	response := &hooksv1.BeforeClusterCreateResponse{}
	if err := c.client.CallExtension(ctx, hooksv1.BeforeClusterCreate, c.cluster, "h.ext", c.request, response); err != nil {
		return err
	}
	if response.Message != "continue" {
		return fmt.Errorf("got %+v", response)
	}
	return nil
}

// callPlainly sends the encoded body and reads the answer without decoding it.
func (c *calling) callPlainly(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(c.body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.plain.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	_, err = io.ReadAll(response.Body)
	return err
}

// The server runs in this process too; what it allocates is in both counts.
func TestCallAddsFewAllocations(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			c := newCalling(t, http2)
			measure := func(call func(context.Context) error) float64 {
				return testing.AllocsPerRun(300, func() {
					if err := call(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			plain, ours := measure(c.callPlainly), measure(c.call)
			t.Logf("%.0f allocations with plain net/http, %.0f with the client: %.0f more", plain, ours, ours-plain)
			if ours-plain > extraAllocs {
				t.Errorf("the client adds %.0f allocations to a call, at most %d are allowed", ours-plain, extraAllocs)
			}
		})
	}
}

func BenchmarkCallExtension(b *testing.B) {
	for name, http2 := range map[string]bool{"HTTP1": false, "HTTP2": true} {
		b.Run(name, func(b *testing.B) {
			c := newCalling(b, http2)
			// In turns, so that other load of the machine affects both equally.
			var plain, ours []time.Duration
			timed := func(call func(context.Context) error) time.Duration {
				started := time.Now()
				if err := call(b.Context()); err != nil {
					b.Fatal(err)
				}
				return time.Since(started)
			}
			for b.Loop() {
				plain = append(plain, timed(c.callPlainly))
				ours = append(ours, timed(c.call))
			}
			allocs := func(call func(context.Context) error) float64 {
				return testing.AllocsPerRun(100, func() { timed(call) })
			}
			slices.Sort(plain)
			slices.Sort(ours)
			b.ReportMetric(0, "ns/op") // of both together: meaningless
			b.ReportMetric(milliseconds(plain[len(plain)/2]), "plain-ms/op")
			b.ReportMetric(milliseconds(ours[len(ours)/2]), "client-ms/op")
			b.ReportMetric(milliseconds(ours[len(ours)/2]-plain[len(plain)/2]), "extra-ms/op")
			b.ReportMetric(allocs(c.call)-allocs(c.callPlainly), "extra-allocs/op")
		})
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// BenchmarkSlowExtension makes a thousand concurrent calls to an extension that takes two
// seconds for each, and calls a fast one meanwhile.
func BenchmarkSlowExtension(b *testing.B) {
	const calls = 1000
	for b.Loop() {
		slow, fast := httptest.NewTLSServer(answering(2*time.Second)), httptest.NewTLSServer(answering(0))
		client := newClient(b, map[string]*httptest.Server{"slow": slow, "fast": fast})
		cluster := fleetCluster()
		call := func(name string) error {
			return client.CallExtension(b.Context(), hooksv1.BeforeClusterCreate, cluster, name, &hooksv1.BeforeClusterCreateRequest{Cluster: *cluster}, &hooksv1.BeforeClusterCreateResponse{})
		}
		latency := func(until func() bool) (took []time.Duration) {
			pause := time.NewTicker(2 * time.Millisecond)
			defer pause.Stop()
			for len(took) < 200 || !until() {
				started := time.Now()
				if err := call("h.fast"); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(started))
				<-pause.C
			}
			slices.Sort(took)
			return took
		}
		alone := latency(func() bool { return true })
		before := heap()
		var (
			all    sync.WaitGroup
			ended  atomic.Int64
			failed atomic.Int64
		)
		for range calls {
			all.Go(func() {
				if err := call("h.slow"); err != nil {
					failed.Add(1)
				}
				ended.Add(1)
			})
		}
		var most uint64
		meanwhile := latency(func() bool {
			if n := ended.Load(); n < calls && n%50 == 0 {
				most = max(most, heap())
			}
			return ended.Load() == calls
		})
		all.Wait()
		b.ReportMetric(float64(failed.Load()), "failed")
		b.ReportMetric(float64(most-min(most, before))/(1<<20), "more-heap-MiB")
		b.ReportMetric(milliseconds(alone[len(alone)/2]), "alone-p50-ms")
		b.ReportMetric(milliseconds(meanwhile[len(meanwhile)/2]), "meanwhile-p50-ms")
		b.ReportMetric(milliseconds(meanwhile[len(meanwhile)*99/100]), "meanwhile-p99-ms")
		b.ReportMetric(milliseconds(alone[len(alone)*99/100]), "alone-p99-ms")
		slow.Close()
		fast.Close()
	}
}

// heap is the memory in use after a collection.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}
