// SPDX-License-Identifier: Apache-2.0

package extensionconfig

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

// following returns a world in which another process discovers the extension.
func following(t *testing.T, config *runtimev1.ExtensionConfig) *world {
	t.Helper()
	w := newWorld(t, config)
	w.Follow = true
	return w
}

// storesResult stores the result of the other process for the current spec.
func (w *world) storesResult(discovered metav1.ConditionStatus, change func(*runtimev1.ExtensionConfig)) {
	w.Helper()
	config := w.read()
	change(config)
	c := metav1.Condition{Type: isDiscovered, Status: discovered, Reason: "Told", ObservedGeneration: config.Generation}
	conditions.Set(config, w.clock.Now(), c)
	w.must(w.client.Status().Update(w.Context(), config))
	w.writes = nil
}

func TestWhoFollowsAsksAndWritesNothing(t *testing.T) {
	t.Parallel()
	w := following(t, ext())
	w.must(warmUp{w.Reconciler}.Start(t.Context()))
	w.reconcile()
	if w.callable(); len(w.tried) > 0 || !slices.Equal(w.expected, []string{"ext"}) {
		t.Errorf("expected %v, tried %v: no call of the extension yet", w.expected, w.tried)
	}
	w.storesResult("True", discoveredBefore)
	w.reconcile()
	if w.callable("old.ext"); !slices.Equal(w.tried, []string{"ext"}) {
		t.Errorf("tried %v", w.tried)
	}
	w.change(func(c *runtimev1.ExtensionConfig) { c.Spec.ClientConfig.URL = "https://new.example.com" })
	w.reconcile()
	if got := w.registered["ext"].Spec.ClientConfig.URL; got != ext().Spec.ClientConfig.URL {
		t.Errorf("calls %s, of which none was recorded yet", got)
	}
	w.storesResult("True", func(*runtimev1.ExtensionConfig) {})
	w.reconcile()
	if got := w.registered["ext"].Spec.ClientConfig.URL; got != "https://new.example.com" {
		t.Errorf("calls %s still", got)
	}
	if w.wrote(); w.asked > 0 {
		t.Errorf("asked %d times", w.asked)
	}
	w.said()
	w.must(w.client.Delete(t.Context(), w.read()))
	w.gone(t.Context(), "ext")
	w.callable()
}

func TestWhoFollowsDoesNotWaitForWhatIsPausedOrFails(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(*world){
		"paused before it was asked": func(w *world) { w.change(annotated(pausing, "")) },
		"without an answer":          func(w *world) { w.storesResult("False", func(*runtimev1.ExtensionConfig) {}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := following(t, ext())
			before(w)
			w.reconcile()
			if w.callable(); !slices.Equal(w.tried, []string{"ext"}) {
				t.Errorf("tried %v", w.tried)
			}
			if w.registered["ext"] == nil {
				t.Error("hooks do not wait for it")
			}
		})
	}
}
