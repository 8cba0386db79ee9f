// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
)

const blocking = `{"status":"Success","message":"wait","retryAfterSeconds":60}`

func TestBlockingAnswersAreGivenAgainUntilTheirTimeIsOver(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), serve(t, blocking)
	w.set(t, e.config("ext", handles("h", "BeforeClusterCreate")))
	for _, step := range []struct {
		pass  time.Duration
		left  int32
		calls int
	}{{0, 60, 1}, {0, 60, 1}, {500 * time.Millisecond, 60, 1}, {30 * time.Second, 30, 1}, {29 * time.Second, 1, 1}, {500 * time.Millisecond, 60, 2}} {
		w.clock.Step(step.pass)
		got, err := w.create(t)
		if err != nil || got.RetryAfterSeconds != step.left || got.Message != "wait" || got.Status != hooksv1.ResponseStatusSuccess || e.calls() != step.calls {
			t.Errorf("after %s: got %+v, %v, %d calls, want %d s left and %d calls", step.pass, got, err, e.calls(), step.left, step.calls)
		}
	}
}

func TestBlockingAnswersAreForOneObjectAndHook(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), serve(t, blocking)
	w.set(t, e.config("ext", handles("h", "BeforeClusterCreate"), handles("d", "BeforeClusterDelete")))
	other := demo()
	other.UID = "another"
	nameless, namesake := demo(), demo()
	nameless.UID, namesake.UID, namesake.Name = "", "", "namesake"
	for i, object := range []metav1.Object{demo(), other, nameless, namesake} {
		for range 2 {
			if err := w.CallAllExtensions(t.Context(), hooksv1.BeforeClusterCreate, object, &hooksv1.BeforeClusterCreateRequest{}, &hooksv1.BeforeClusterCreateResponse{}); err != nil {
				t.Fatal(err)
			}
		}
		if n := e.calls(); n != i+1 {
			t.Errorf("object %d: %d calls, want %d", i, n, i+1)
		}
	}
	if err := w.CallAllExtensions(t.Context(), hooksv1.BeforeClusterDelete, demo(), &hooksv1.BeforeClusterDeleteRequest{}, &hooksv1.BeforeClusterDeleteResponse{}); err != nil || e.calls() != 5 {
		t.Errorf("another hook: %v, %d calls, want 5", err, e.calls())
	}
}

func TestBlockingAnswersAreDroppedWithTheirExtension(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(w *world, e, free *extension)
		calls  int // of the blocking one, in total
		left   int32
	}{
		"nothing changed": {func(w *world, e, _ *extension) {
			w.set(t, e.config("ext", handles("h", "BeforeClusterCreate")))
		}, 1, 60},
		"a new resourceVersion changes nothing": {func(w *world, e, _ *extension) {
			c := e.config("ext", handles("h", "BeforeClusterCreate"))
			c.ResourceVersion, c.Status.Conditions = "9", []metav1.Condition{{Type: "Discovered", Status: "True"}}
			w.set(t, c)
		}, 1, 60},
		"it was removed": {func(w *world, _, _ *extension) { w.registry.Remove("ext") }, 1, 0},
		"its generation changed": {func(w *world, e, _ *extension) {
			c := e.config("ext", handles("h", "BeforeClusterCreate"))
			c.Generation = 2
			w.set(t, c)
		}, 2, 60},
		"it was created again": {func(w *world, e, _ *extension) {
			c := e.config("ext", handles("h", "BeforeClusterCreate"))
			c.UID = "another"
			w.set(t, c)
		}, 2, 60},
		"its handlers changed": {func(w *world, e, _ *extension) {
			w.set(t, e.config("ext", handles("other", "BeforeClusterCreate")))
		}, 2, 60},
		"another one came":                    {func(w *world, _, free *extension) { w.set(t, free.config("free", handles("h", "BeforeClusterCreate"))) }, 2, 60},
		"another one came for another hook":   {func(w *world, _, free *extension) { w.set(t, free.config("free", handles("h", "BeforeClusterDelete"))) }, 1, 60},
		"its namespace is no longer selected": {func(w *world, _, _ *extension) { w.namespaces["default"] = nil }, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, e, free := newWorld(t), serve(t, blocking), serve(t, success)
			w.namespaces = map[string]map[string]string{"default": {"blocked": "yes"}}
			config := e.config("ext", handles("h", "BeforeClusterCreate"))
			if name == "its namespace is no longer selected" {
				config.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"blocked": "yes"}}
			}
			w.set(t, config)
			if _, err := w.create(t); err != nil {
				t.Fatal(err)
			}
			tc.change(w, e, free)
			got, err := w.create(t)
			if err != nil || got.RetryAfterSeconds != tc.left || e.calls() != tc.calls {
				t.Errorf("got %d s, %v, %d calls, want %d s and %d calls", got.RetryAfterSeconds, err, e.calls(), tc.left, tc.calls)
			}
		})
	}
}

func TestAnswersOfCacheableHooksAreRemembered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var failing atomic.Bool
	e := serveFunc(t, func(rw http.ResponseWriter, r *http.Request) {
		if failing.Load() {
			write(200, `{"status":"Failure","message":"no"}`)(rw, r)
			return
		}
		write(200, `{"status":"Success","variables":[{"name":"v","required":true,"schema":{"openAPIV3Schema":{"type":"string"}}}]}`)(rw, r)
	})
	set := func(change func(*runtimev1.ExtensionConfig)) {
		c := e.config("ext", handles("a", "DiscoverVariables"), handles("b", "DiscoverVariables"))
		change(c)
		w.set(t, c)
	}
	set(func(*runtimev1.ExtensionConfig) {})
	ask := func(handler string, settings map[string]string) error {
		request, response := &hooksv1.DiscoverVariablesRequest{}, &hooksv1.DiscoverVariablesResponse{}
		request.Settings = settings
		err := w.CallExtension(t.Context(), hooksv1.DiscoverVariables, demo(), handler, request, response)
		if err == nil && (len(response.Variables) != 1 || response.Kind != "DiscoverVariablesResponse") {
			t.Errorf("got %+v, want one variable", response)
		}
		if err == nil {
			response.Variables[0].Name = "spoilt" // callers must not get the cached value itself
		}
		return err
	}
	s := map[string]string{"a": "1"}
	for i, step := range []struct {
		does  string
		do    func()
		ask   string
		with  map[string]string
		calls int
		fails bool
	}{
		{"ask", func() {}, "a.ext", nil, 1, false},
		{"ask again", func() {}, "a.ext", nil, 1, false},
		{"other settings", func() {}, "a.ext", s, 2, false},
		{"another handler", func() {}, "b.ext", nil, 3, false},
		{"nothing new", func() { set(func(*runtimev1.ExtensionConfig) {}) }, "a.ext", nil, 3, false},
		{"another was rejected", func() { w.Reject(hooksv1.DiscoverVariables, "b.ext", &hooksv1.DiscoverVariablesRequest{}) }, "a.ext", nil, 3, false},
		{"it was rejected", func() { w.Reject(hooksv1.DiscoverVariables, "a.ext", &hooksv1.DiscoverVariablesRequest{}) }, "a.ext", nil, 4, false},
		{"touched", func() { set(func(c *runtimev1.ExtensionConfig) { c.ResourceVersion = "2" }) }, "a.ext", nil, 5, false},
		{"touched, and asked again", func() {}, "a.ext", nil, 5, false},
		{"new generation", func() { set(func(c *runtimev1.ExtensionConfig) { c.Generation = 2 }) }, "a.ext", nil, 6, false},
		{"just in time", func() { w.clock.Step(10*time.Minute - 1) }, "a.ext", nil, 6, false},
		{"too late, and it fails", func() { w.clock.Step(1); failing.Store(true) }, "a.ext", nil, 7, true},
		{"Failure is not remembered", func() {}, "a.ext", nil, 8, true},
		{"works again", func() { failing.Store(false) }, "a.ext", nil, 9, false},
		{"removed and back", func() {
			w.registry.Remove("ext")
			set(func(c *runtimev1.ExtensionConfig) { c.Generation = 2 })
		}, "a.ext", nil, 10, false},
	} {
		step.do()
		if err := ask(step.ask, step.with); (err != nil) != step.fails || e.calls() != step.calls {
			t.Errorf("step %d, %s: got %v, %d calls, want failure %v, %d calls", i, step.does, err, e.calls(), step.fails, step.calls)
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	until := now.Add(time.Hour)
	keys := func(m *memory[string, int]) (found string) {
		for _, k := range []string{"a", "b", "c", "d"} {
			if at, ok := m.entries[k]; ok {
				found += fmt.Sprint(k, at.Value.(entry[string, int]).value)
			}
		}
		return found + fmt.Sprint(" ", m.bytes)
	}
	for name, tc := range map[string]struct {
		do   func(m *memory[string, int])
		want string
	}{
		"the least used entry goes first":   {func(m *memory[string, int]) { m.get("a", now); m.put("d", 4, 1, until) }, "a1c3d4 3"},
		"many bytes push several out":       {func(m *memory[string, int]) { m.put("d", 4, 9, until) }, "c3d4 10"},
		"more bytes than fit are not kept":  {func(m *memory[string, int]) { m.put("d", 4, 11, until) }, "a1b2c3 3"},
		"an entry replaces itself":          {func(m *memory[string, int]) { m.put("b", 5, 2, until) }, "a1b5c3 4"},
		"an entry too large forgets itself": {func(m *memory[string, int]) { m.put("b", 5, 99, until) }, "a1c3 2"},
		"what is over is forgotten":         {func(m *memory[string, int]) { m.get("a", until) }, "b2c3 2"},
		"what is stale is dropped":          {func(m *memory[string, int]) { m.drop(func(v int) bool { return v != 2 }) }, "b2 1"},
	} {
		m := newMemory[string, int](3, 10)
		for i, k := range []string{"a", "b", "c"} {
			m.put(k, i+1, 1, until)
		}
		tc.do(m)
		if diff := cmp.Diff(tc.want, keys(m)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
