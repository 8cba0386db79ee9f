// SPDX-License-Identifier: Apache-2.0

package extensionconfig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/writes"
)

// world is one ExtensionConfig "ext" with the extension that it names, the
// registry, and a record of what happens.
type world struct {
	*testing.T
	*Reconciler
	client client.Client
	clock  *testclock.FakeClock
	events *events.FakeRecorder

	answer func(context.Context, *runtimev1.ExtensionConfig) (*hooksv1.DiscoveryResponse, error)
	writes []string

	mu         sync.Mutex // guards what follows
	asked      int
	registered map[string]*runtimev1.ExtensionConfig
	refuse     error // the error of the registry's Set
	tried      []string
	expected   []string
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(runtimev1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, clock: testclock.NewFakeClock(time.Unix(1_000_000, 0)), events: events.NewFakeRecorder(20), registered: map[string]*runtimev1.ExtensionConfig{}}
	w.answer = says(answers("a"), answers("b"))
	w.client = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&runtimev1.ExtensionConfig{}).WithObjects(objects...).
		WithInterceptorFuncs(writes.Before(func(verb string, _ client.Object) error {
			w.writes = append(w.writes, verb)
			return nil
		})).Build()
	w.restart()
	return w
}

// restart drops everything that is not in the API server.
func (w *world) restart() {
	w.Reconciler = &Reconciler{
		Deps:       deps.Deps{Mgmt: w.client, Live: w.client, Clock: w.clock, Recorder: w.events, Deprecated: true},
		Extensions: w,
		Registry:   w,
		Catalog:    catalog.Default(),
		Random:     func() float64 { return 0.5 },
		ours:       func(client.Object) bool { return true },
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.registered)
}

func (w *world) Discover(ctx context.Context, config *runtimev1.ExtensionConfig) (*hooksv1.DiscoveryResponse, error) {
	w.mu.Lock()
	w.asked++
	w.mu.Unlock()
	return w.answer(ctx, config)
}

func (w *world) Set(config *runtimev1.ExtensionConfig) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse != nil {
		return w.refuse
	}
	w.registered[config.Name] = config.DeepCopy()
	return nil
}

func (w *world) Remove(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.registered, name)
}

func (w *world) Expect(names ...string) { w.expected = append(w.expected, names...) }

func (w *world) Tried(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tried = append(w.tried, name)
}

// reconcile calls Reconcile once with what a cache would show.
func (w *world) reconcile() ctrl.Result {
	w.Helper()
	res, err := w.Reconcile(w.Context(), w.read())
	if err != nil {
		w.Fatal(err)
	}
	return res
}

func (w *world) read() *runtimev1.ExtensionConfig {
	w.Helper()
	config := &runtimev1.ExtensionConfig{}
	w.must(w.client.Get(w.Context(), client.ObjectKey{Name: "ext"}, config))
	return config
}

// change stores a change of the spec or of metadata, as a user does.
func (w *world) change(edit func(*runtimev1.ExtensionConfig)) {
	w.Helper()
	config := w.read()
	edit(config)
	config.Generation++
	w.must(w.client.Update(w.Context(), config))
	w.writes = nil
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// is fails unless the condition has the status, and its message contains text.
func (w *world) is(condition string, status metav1.ConditionStatus, text string) {
	w.Helper()
	c := conditions.Get(w.read(), condition)
	if c == nil || c.Status != status || !strings.Contains(c.Message, text) || c.Message != "" && text == "" {
		w.Errorf("condition %s is %+v, want %s with %q", condition, c, status, text)
	}
}

// wrote fails unless these were the writes since it was called last.
func (w *world) wrote(want ...string) {
	w.Helper()
	if !slices.Equal(w.writes, want) {
		w.Errorf("writes %v, want %v", w.writes, want)
	}
	w.writes = nil
}

// said fails unless these were the events since the last call.
func (w *world) said(want ...string) {
	w.Helper()
	var got []string
	for len(w.events.Events) > 0 {
		got = append(got, <-w.events.Events)
	}
	if !slices.Equal(got, want) {
		w.Errorf("events %q, want %q", got, want)
	}
}

// callable fails unless these handlers, and no others, are registered.
func (w *world) callable(want ...string) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var got []string
	for _, config := range w.registered {
		got = append(got, names(config)...)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		w.Errorf("registered %v, want %v", got, want)
	}
}

func names(config *runtimev1.ExtensionConfig) (all []string) {
	for _, h := range config.Status.Handlers {
		all = append(all, h.Name)
	}
	return all
}

func ext(edits ...func(*runtimev1.ExtensionConfig)) *runtimev1.ExtensionConfig {
	config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "ext", UID: "1", Generation: 1}}
	config.Spec.ClientConfig.URL = "https://extension.example.com"
	config.Spec.NamespaceSelector = &metav1.LabelSelector{}
	for _, edit := range edits {
		edit(config)
	}
	return config
}

func annotated(key, value string) func(*runtimev1.ExtensionConfig) {
	return func(config *runtimev1.ExtensionConfig) {
		metav1.SetMetaDataAnnotation(&config.ObjectMeta, key, value)
	}
}

func discoveredBefore(config *runtimev1.ExtensionConfig) {
	config.Status.Handlers = []runtimev1.ExtensionHandler{{
		Name: "old.ext", RequestHook: runtimev1.GroupVersionHook{APIVersion: hooksv1.GroupVersion().String(), Hook: "BeforeClusterCreate"}, TimeoutSeconds: 10, FailurePolicy: runtimev1.FailurePolicyFail,
	}}
}

func answers(name string) hooksv1.ExtensionHandler {
	return hooksv1.ExtensionHandler{Name: name, RequestHook: hooksv1.GroupVersionHook{APIVersion: hooksv1.GroupVersion().String(), Hook: "BeforeClusterCreate"}}
}

func says(handlers ...hooksv1.ExtensionHandler) func(context.Context, *runtimev1.ExtensionConfig) (*hooksv1.DiscoveryResponse, error) {
	return func(context.Context, *runtimev1.ExtensionConfig) (*hooksv1.DiscoveryResponse, error) {
		answer := &hooksv1.DiscoveryResponse{Handlers: handlers}
		answer.SetGroupVersionKind(hooksv1.GroupVersion().WithKind("DiscoveryResponse"))
		answer.Status = hooksv1.ResponseStatusSuccess
		return answer, nil
	}
}

func fails(text string) func(context.Context, *runtimev1.ExtensionConfig) (*hooksv1.DiscoveryResponse, error) {
	return func(context.Context, *runtimev1.ExtensionConfig) (*hooksv1.DiscoveryResponse, error) {
		return nil, fmt.Errorf("discover: %s", text)
	}
}
