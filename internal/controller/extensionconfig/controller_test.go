// SPDX-License-Identifier: Apache-2.0

package extensionconfig

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/extension/catalog/testdata/v1alpha2"
	"github.com/capstan-dev/capstan/internal/builder"
)

const (
	isDiscovered = runtimev1.ExtensionConfigDiscoveredCondition
	isUpToDate   = runtimev1.ExtensionConfigHookVersionsUpToDateCondition
	isPaused     = "Paused"
	pausing      = "cluster.x-k8s.io/paused"
)

func TestDiscoveryFillsStatusAndRegistryInOneWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ext())
	if res := w.reconcile(); res.RequeueAfter != 10*time.Minute {
		t.Errorf("requeues after %s, want 10m", res.RequeueAfter)
	}
	w.wrote("patch status of")
	w.is(isDiscovered, "True", "")
	w.is(isUpToDate, "True", "")
	w.is(isPaused, "False", "")
	w.callable("a.ext", "b.ext")
	w.said("Normal Discovered Discovered 2 handlers: a.ext, b.ext")
	if diff := cmp.Diff([]string{"Discovered True"}, builder.Deprecated(w.read().Status.Deprecated.V1Beta1.Conditions)); diff != "" {
		t.Errorf("to clients of v1beta1 (-want +got)\n%s", diff)
	}
	if got := names(w.read()); len(got) != 2 || len(w.tried) != 1 {
		t.Errorf("status has %v, tried %v", got, w.tried)
	}
}

func TestNothingIsAskedOrWrittenWhileNothingChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ext())
	w.reconcile()
	w.wrote("patch status of")
	w.said("Normal Discovered Discovered 2 handlers: a.ext, b.ext")
	w.clock.Step(4 * time.Minute)
	if res := w.reconcile(); res.RequeueAfter != 6*time.Minute || w.asked != 1 {
		t.Errorf("requeues after %s, asked %d times; want 6m, once", res.RequeueAfter, w.asked)
	}
	w.clock.Step(6 * time.Minute)
	w.reconcile()
	if w.asked != 2 {
		t.Errorf("asked %d times, want again after ten minutes", w.asked)
	}
	w.restart()
	w.reconcile()
	if w.asked != 3 {
		t.Errorf("asked %d times, want again after a restart", w.asked)
	}
	w.callable("a.ext", "b.ext")
	w.wrote()
	w.said()
}

func TestAnExtensionIsAskedAgainWhenItsConfigChanges(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*runtimev1.ExtensionConfig){
		"the url":         func(c *runtimev1.ExtensionConfig) { c.Spec.ClientConfig.URL = "https://other.example.com" },
		"the selector":    func(c *runtimev1.ExtensionConfig) { c.Spec.NamespaceSelector.MatchLabels = map[string]string{"a": "b"} },
		"an annotation":   annotated("a", "b"),
		"another of them": func(c *runtimev1.ExtensionConfig) { c.UID = "2" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, ext())
			w.reconcile()
			w.change(change)
			w.answer = says(answers("b"), answers("c"))
			w.reconcile()
			w.callable("b.ext", "c.ext")
			if w.asked != 2 {
				t.Errorf("asked %d times, want twice", w.asked)
			}
		})
	}
}

func TestAFailureKeepsTheHandlersThatWereKnown(t *testing.T) {
	t.Parallel()
	strange := answers("c")
	strange.RequestHook.Hook = "BeforeBreakfast"
	failure := func(context.Context, *runtimev1.ExtensionConfig) (*hooksv1.DiscoveryResponse, error) {
		answer := &hooksv1.DiscoveryResponse{}
		answer.SetGroupVersionKind(schema.GroupVersionKind{Group: "hooks.runtime.cluster.x-k8s.io", Version: "v1alpha1", Kind: "DiscoveryResponse"})
		answer.Status, answer.Message = hooksv1.ResponseStatusFailure, "out of order"
		return answer, nil
	}
	tests := map[string]struct {
		answer func(context.Context, *runtimev1.ExtensionConfig) (*hooksv1.DiscoveryResponse, error)
		want   []string
	}{
		"no answer":         {fails("connection refused"), []string{"connection refused"}},
		"a failure":         {failure, []string{"out of order"}},
		"every mistake":     {says(answers("a"), answers("a"), answers("X"), strange), []string{`handlers[1] "a"`, `handlers[2] "X"`, "BeforeBreakfast"}},
		"an endless answer": {fails(strings.Repeat("é", 40000)), []string{"éé …"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, ext(discoveredBefore))
			w.answer = tc.answer
			w.change(func(c *runtimev1.ExtensionConfig) { c.Spec.Settings = map[string]string{"new": "settings"} })
			if res := w.reconcile(); res.RequeueAfter != time.Second {
				t.Errorf("requeues after %s, want 1s", res.RequeueAfter)
			}
			for _, want := range tc.want {
				w.is(isDiscovered, "False", want)
			}
			w.wrote("patch status of")
			w.callable("old.ext")
			if w.registered["ext"].Spec.Settings["new"] == "" {
				t.Error("registered with the previous spec")
			}
			if event := <-w.events.Events; !strings.Contains(event, "Warning DiscoveryFailed ") || len(event) > 1100 {
				t.Errorf("event %q", event)
			}
			w.said()
			w.clock.Step(time.Second)
			if res := w.reconcile(); res.RequeueAfter != 2*time.Second {
				t.Errorf("requeues after %s, want 2s", res.RequeueAfter)
			}
			w.wrote()
			w.said()
		})
	}
}

// TestWhatWasNeverDiscoveredIsRegisteredWithoutHandlers, so that hooks wait for it.
func TestWhatWasNeverDiscoveredIsRegisteredWithoutHandlers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ext())
	w.answer = fails("connection refused")
	w.reconcile()
	if w.registered["ext"] == nil {
		t.Error("it is not registered")
	}
	w.callable()
	w.is(isDiscovered, "False", "connection refused")
	w.is(isUpToDate, "Unknown", "Waiting for the extension to be discovered")
	w.said("Warning DiscoveryFailed discover: connection refused")
	if len(w.tried) != 1 {
		t.Errorf("tried %v: a failure counts", w.tried)
	}
	w.answer = says()
	w.clock.Step(time.Second)
	w.reconcile()
	w.is(isDiscovered, "True", "")
	w.is(isUpToDate, "True", "")
	w.said("Normal Discovered Discovered no handlers")
}

func TestReconcileReportsFailedRegistration(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ext())
	w.refuse = errors.New("spec.namespaceSelector: no such operator")
	w.reconcile()
	w.is(isDiscovered, "False", "register handlers: spec.namespaceSelector: no such operator")
	w.refuse = nil
	w.clock.Step(time.Second)
	w.reconcile()
	w.is(isDiscovered, "True", "")
	w.callable("a.ext", "b.ext")
}

func TestAPausedExtensionStaysAsItIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ext())
	w.reconcile()
	w.change(annotated(pausing, ""))
	w.change(func(c *runtimev1.ExtensionConfig) { c.Spec.ClientConfig.URL = "https://other.example.com" })
	if res := w.reconcile(); res.RequeueAfter != 0 || w.asked != 1 {
		t.Errorf("requeues after %s, asked %d times", res.RequeueAfter, w.asked)
	}
	w.is(isPaused, "True", pausing)
	w.wrote("patch status of")
	w.callable("a.ext", "b.ext")
	if got := w.registered["ext"].Spec.ClientConfig.URL; got != "https://extension.example.com" {
		t.Errorf("registered at %s", got)
	}
	w.reconcile()
	w.wrote()
	w.change(func(c *runtimev1.ExtensionConfig) { delete(c.Annotations, pausing) })
	w.reconcile()
	w.is(isPaused, "False", "")
	if got := w.registered["ext"].Spec.ClientConfig.URL; got != "https://other.example.com" || w.asked != 2 {
		t.Errorf("registered at %s, asked %d times", got, w.asked)
	}
}

func TestDeprecatedVersionsAreACondition(t *testing.T) {
	t.Parallel()
	version := catalog.V1Alpha1()
	for i := range version.Hooks {
		if reflect.ValueOf(version.Hooks[i].Func).Pointer() == reflect.ValueOf(hooksv1.BeforeClusterUpgrade).Pointer() {
			version.Hooks[i].Deprecated = &catalog.Deprecation{Since: "v1.9.0", Date: "2026-01-02", Use: "v1alpha2"}
		}
	}
	c, err := catalog.New(version, v1alpha2.Version())
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, ext())
	w.Catalog = c
	old := answers("a")
	old.RequestHook.Hook = "BeforeClusterUpgrade"
	w.answer = says(old, answers("b"))
	w.reconcile()
	w.is(isDiscovered, "True", "")
	w.is(isUpToDate, "False", "hooks.runtime.cluster.x-k8s.io/v1alpha1 BeforeClusterUpgrade is deprecated since v1.9.0: use v1alpha2")
}

func TestAFailedWriteIsRepeatedWithAFreshAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ext())
	broken := ext()
	broken.ResourceVersion = "1"
	w.Mgmt = failing{w.client, fmt.Errorf("quota")}
	if _, err := w.Reconcile(t.Context(), broken); err == nil {
		t.Fatal("no error")
	}
	w.Mgmt = w.client
	w.reconcile()
	w.is(isDiscovered, "True", "")
	if w.asked != 2 {
		t.Errorf("asked %d times, want twice", w.asked)
	}
}

func TestAnEndingReconcileSaysNothingOfTheExtension(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ext(discoveredBefore))
	ctx, cancel := context.WithCancel(t.Context())
	w.answer = func(ctx context.Context, _ *runtimev1.ExtensionConfig) (*hooksv1.DiscoveryResponse, error) {
		cancel()
		return nil, context.Cause(ctx)
	}
	if _, err := w.Reconcile(ctx, w.read()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that it was canceled", err)
	}
	w.wrote()
	w.said()
}

func TestWaitsGrowFromASecondToFiveMinutes(t *testing.T) {
	t.Parallel()
	a, in, now := &attempts{}, inputs{uid: "1"}, time.Unix(0, 0)
	want := []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300}
	for i, seconds := range want {
		if got := a.note("ext", in, true, now, 0.5); got != seconds*time.Second {
			t.Errorf("failure %d: %s, want %ds", i+1, got, seconds)
		}
	}
	for random, want := range map[float64]time.Duration{0: 9 * time.Minute, 0.5: 10 * time.Minute, 0.75: 10*time.Minute + 30*time.Second} {
		if got := a.note("ext", in, false, now, random); got.Round(time.Millisecond) != want {
			t.Errorf("success: %s, want %s", got, want)
		}
	}
	if got := a.note("ext", in, true, now, 0.5); got != time.Second {
		t.Errorf("a failure after success: %s, want 1s", got)
	}
	if got := a.note("ext", inputs{uid: "2"}, true, now, 0.5); got != time.Second {
		t.Errorf("a failure of another spec: %s, want 1s", got)
	}
	if got := a.note("ext", inputs{misplaced: "no Secret"}, true, now, 0.5); got != 10*time.Minute {
		t.Errorf("without its Secret: %s, want 10m: the watch triggers a reconcile", got)
	}
}

func TestConditionsAreAboutTheGenerationThatWasAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ext())
	w.change(func(c *runtimev1.ExtensionConfig) { c.Spec.Settings = map[string]string{"a": "b"} })
	w.reconcile()
	for _, c := range []string{isDiscovered, isUpToDate, isPaused} {
		if got := conditions.Get(w.read(), c); got == nil || got.ObservedGeneration != 2 || got.LastTransitionTime == (metav1.Time{}) {
			t.Errorf("condition %s: %+v, want generation 2", c, got)
		}
	}
}
