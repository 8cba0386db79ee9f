// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/internal/access/extensions"
	"github.com/capstan-dev/capstan/internal/access/extensions/transport"
)

func TestPagesReportExtensions(t *testing.T) {
	t.Parallel()
	c := catalog.Default()
	registry := extensions.NewRegistry(c)
	pool, err := transport.New(transport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	calls, err := extensions.New(extensions.Options{Catalog: c, Registry: registry, Transport: pool, Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	pages := &ExtensionPages{}
	get := func(method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		pages.Handlers()[path].ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
		return w
	}

	if w := get("GET", ExtensionsPath); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
		t.Errorf("before the controllers run: %d, headers %v", w.Code, w.Header())
	}
	pages.show(calls)
	if w := get("GET", ExtensionsPath); w.Code != http.StatusOK || strings.TrimSpace(w.Body.String()) != "[]" {
		t.Errorf("without extensions: %d %s", w.Code, w.Body)
	}
	config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "ext"}}
	config.Spec.ClientConfig.URL = "https://extension.example.com"
	config.Status.Handlers = []runtimev1.ExtensionHandler{{Name: "a.ext", RequestHook: runtimev1.GroupVersionHook{APIVersion: "hooks.runtime.cluster.x-k8s.io/v1alpha1", Hook: "BeforeClusterCreate"}}}
	if err := registry.Set(config); err != nil {
		t.Fatal(err)
	}
	if w := get("GET", ExtensionsPath); !strings.Contains(w.Body.String(), `"handler":"a.ext"`) || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("with one: %v %s", w.Header(), w.Body)
	}
	if w := get("POST", ExtensionsPath); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
	var document struct{ OpenAPI string }
	if w := get("GET", HooksPath); json.Unmarshal(w.Body.Bytes(), &document) != nil || !strings.HasPrefix(document.OpenAPI, "3.0.") {
		t.Errorf("hooks: %d %.100s", w.Code, w.Body)
	}
	pages.show(nil)
	if w := get("GET", ExtensionsPath); w.Code != http.StatusServiceUnavailable {
		t.Errorf("after the controllers: %d", w.Code)
	}
}

// spans is a collector that records the names of received spans.
type spans struct {
	collector.UnimplementedTraceServiceServer
	mu    sync.Mutex // guards names
	names []string
}

func (s *spans) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range r.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				s.names = append(s.names, span.Name)
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func TestTracesAreSentBeforeTheEnd(t *testing.T) {
	t.Parallel()
	got, server := &spans{}, grpc.NewServer()
	collector.RegisterTraceServiceServer(server, got)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()

	for _, endpoint := range []string{l.Addr().String(), "http://" + l.Addr().String()} {
		tr, err := openTracing(t.Context(), endpoint, logr.Discard())
		if err != nil {
			t.Fatal(err)
		}
		_, span := tr.provider().Tracer("test").Start(t.Context(), endpoint)
		span.End()
		if err := tr.close(t.Context()); err != nil {
			t.Error(err)
		}
		got.mu.Lock()
		if n := len(got.names); n == 0 || got.names[n-1] != endpoint {
			t.Errorf("spans %v, want %s last", got.names, endpoint)
		}
		got.mu.Unlock()
	}
}

func TestTracingIsOffWithoutAnEndpoint(t *testing.T) {
	t.Parallel()
	tr, err := openTracing(t.Context(), "", logr.Discard())
	if err != nil || tr.provider() != nil || tr.close(t.Context()) != nil {
		t.Errorf("%v, %v", tr, err)
	}
}

func TestAnEndpointThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []string{"nowhere", "ftp://host:1", "https://host"} {
		if _, err := openTracing(t.Context(), endpoint, logr.Discard()); err == nil || !strings.Contains(err.Error(), "send traces to "+endpoint) {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}

// flaky is an exporter that returns a given error.
type flaky struct {
	sdktrace.SpanExporter
	err error
}

func (f *flaky) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return f.err }

func TestLostTracesAreLoggedOnce(t *testing.T) {
	t.Parallel()
	var lines []string
	log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	exporter := &flaky{}
	r := &reporting{SpanExporter: exporter, log: log}
	for _, step := range []struct {
		err  error
		want int // lines so far
	}{{nil, 0}, {errors.New("refused"), 1}, {errors.New("refused"), 1}, {nil, 2}, {nil, 2}, {errors.New("refused"), 3}} {
		exporter.err = step.err
		if err := r.ExportSpans(t.Context(), nil); err != nil || len(lines) != step.want {
			t.Errorf("%v: %v, lines %q, want %d", step.err, err, lines, step.want)
		}
	}
}
