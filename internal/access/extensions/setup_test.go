// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/internal/access/extensions/transport"
)

// The published version and a later one of BeforeClusterUpgrade, which only these
// tests have: its request has other names for the versions, and a reason.
const (
	v1alpha1 = "hooks.runtime.cluster.x-k8s.io/v1alpha1"
	v1alpha2 = "hooks.runtime.cluster.x-k8s.io/v1alpha2"
)

type BeforeClusterUpgradeRequest struct {
	metav1.TypeMeta       `json:",inline"`
	hooksv1.CommonRequest `json:",inline"`

	Cluster clusterv1.Cluster `json:"cluster"`
	From    string            `json:"from"`
	To      string            `json:"to"`
	Reason  string            `json:"reason"`
}

type BeforeClusterUpgradeResponse struct {
	metav1.TypeMeta             `json:",inline"`
	hooksv1.CommonRetryResponse `json:",inline"`
}

func (r *BeforeClusterUpgradeRequest) DeepCopyObject() runtime.Object {
	out := *r
	out.Cluster = *r.Cluster.DeepCopy()
	return &out
}

func (r *BeforeClusterUpgradeResponse) DeepCopyObject() runtime.Object { return new(*r) }

func BeforeClusterUpgrade(*BeforeClusterUpgradeRequest, *BeforeClusterUpgradeResponse) {}

// newCatalog returns a catalog with the published hooks and the later version of
// BeforeClusterUpgrade, which makes the published one deprecated.
func newCatalog(t testing.TB) *catalog.Catalog {
	t.Helper()
	published := catalog.V1Alpha1()
	for i, h := range published.Hooks {
		if reflect.ValueOf(h.Func).Pointer() == reflect.ValueOf(hooksv1.BeforeClusterUpgrade).Pointer() {
			published.Hooks[i].Deprecated = &catalog.Deprecation{Since: "v1.4.0", Date: "2026-11-20"}
		}
	}
	c, err := catalog.New(published, catalog.Version{
		GroupVersion: schema.GroupVersion{Group: hooksv1.GroupVersion().Group, Version: "v1alpha2"},
		Hooks:        []catalog.Hook{{Func: BeforeClusterUpgrade}},
		Conversions: []catalog.Conversion{catalog.Convert(BeforeClusterUpgrade, hooksv1.BeforeClusterUpgrade,
			func(in *BeforeClusterUpgradeRequest, out *hooksv1.BeforeClusterUpgradeRequest) error {
				out.Cluster, out.FromKubernetesVersion, out.ToKubernetesVersion = in.Cluster, in.From, in.To
				return nil
			},
			func(in *hooksv1.BeforeClusterUpgradeResponse, out *BeforeClusterUpgradeResponse) error {
				out.Message = in.Message + " (as v1alpha1 says)"
				return nil
			})},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// world is a client with its dependencies.
type world struct {
	*Client
	registry   *Registry
	clock      *testclock.FakeClock
	metrics    *prometheus.Registry
	namespaces map[string]map[string]string
	lookups    int
}

func newWorld(t testing.TB, change ...func(*Options)) *world {
	t.Helper()
	w := &world{clock: testclock.NewFakeClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)), metrics: prometheus.NewRegistry()}
	c := newCatalog(t)
	w.registry = NewRegistry(c)
	w.registry.Expect()
	pool, err := transport.New(transport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	o := Options{Catalog: c, Registry: w.registry, Transport: pool, Clock: w.clock, Metrics: w.metrics, Namespaces: w.labels}
	for _, c := range change {
		c(&o)
	}
	if w.Client, err = New(o); err != nil {
		t.Fatal(err)
	}
	return w
}

// extension is a server that records requests.
type extension struct {
	*httptest.Server
	mu       sync.Mutex
	requests []received
}

type received struct {
	Path string
	Body map[string]any
}

// serve starts an extension that gives the same response to each request.
func serve(t testing.TB, answer string) *extension {
	t.Helper()
	return serveFunc(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	})
}

func serveFunc(t testing.TB, handle http.HandlerFunc) *extension {
	t.Helper()
	e := &extension{}
	e.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		sent, err := io.ReadAll(r.Body) // to its end: only then does the server notice that a client disconnects
		if err = errors.Join(err, json.Unmarshal(sent, &body)); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		e.mu.Lock()
		e.requests = append(e.requests, received{r.URL.Path, body})
		e.mu.Unlock()
		handle(w, r)
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *extension) received() []received {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.requests
}

func (e *extension) calls() int { return len(e.received()) }

// config returns an ExtensionConfig of the extension.
func (e *extension) config(name string, handlers ...runtimev1.ExtensionHandler) *runtimev1.ExtensionConfig {
	out := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 1}}
	out.Spec.ClientConfig = runtimev1.ClientConfig{
		URL:      e.URL,
		CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: e.Certificate().Raw}),
	}
	for _, h := range handlers {
		h.Name += "." + name
		out.Status.Handlers = append(out.Status.Handlers, h)
	}
	out.Status.Conditions = []metav1.Condition{{Type: runtimev1.ExtensionConfigDiscoveredCondition, Status: metav1.ConditionTrue}}
	return out
}

func handles(name, hook string) runtimev1.ExtensionHandler {
	return runtimev1.ExtensionHandler{Name: name, RequestHook: runtimev1.GroupVersionHook{APIVersion: v1alpha1, Hook: hook}, TimeoutSeconds: 10, FailurePolicy: runtimev1.FailurePolicyFail}
}

func ignoring(h runtimev1.ExtensionHandler) runtimev1.ExtensionHandler {
	h.FailurePolicy = runtimev1.FailurePolicyIgnore
	return h
}

func (w *world) set(t testing.TB, configs ...*runtimev1.ExtensionConfig) {
	t.Helper()
	for _, c := range configs {
		if err := w.registry.Set(c); err != nil {
			t.Fatal(err)
		}
	}
}

func demo() *clusterv1.Cluster {
	return &clusterv1.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion().String(), Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: "default", UID: "demo-uid"},
	}
}

// create calls all handlers of BeforeClusterCreate.
func (w *world) create(t testing.TB) (*hooksv1.BeforeClusterCreateResponse, error) {
	t.Helper()
	out := &hooksv1.BeforeClusterCreateResponse{}
	err := w.CallAllExtensions(t.Context(), hooksv1.BeforeClusterCreate, demo(), &hooksv1.BeforeClusterCreateRequest{Cluster: *demo()}, out)
	return out, err
}

// labels returns the labels of a namespace, and counts calls.
func (w *world) labels(_ context.Context, name string) (map[string]string, error) {
	w.lookups++
	if found, ok := w.namespaces[name]; ok {
		return found, nil
	}
	return nil, errors.New("it is not in the cache")
}
