// SPDX-License-Identifier: Apache-2.0

package extensionconfig

import (
	"context"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
)

// failing is a client on which patches fail.
type failing struct {
	client.Client
	err error
}

func (f failing) Status() client.SubResourceWriter { return failingStatus{f.Client.Status(), f.err} }

type failingStatus struct {
	client.SubResourceWriter
	err error
}

func (f failingStatus) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	return f.err
}

func TestADeletionEndsCallsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ext())
	w.reconcile()
	w.callable("a.ext", "b.ext")
	w.must(w.client.Delete(t.Context(), w.read()))
	w.gone(t.Context(), "ext")
	w.callable()
	if w.attempts.has("ext") {
		t.Error("its last attempt is still remembered")
	}
}

func TestADeletionThatFinalizersOfOthersHoldUpEndsCallsToo(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*world){
		"by the event":     func(w *world) { w.gone(w.Context(), "ext") },
		"by the reconcile": func(w *world) { w.reconcile() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, ext(func(c *runtimev1.ExtensionConfig) { c.Finalizers = []string{"example.com/mine"} }))
			w.reconcile()
			w.must(w.client.Delete(t.Context(), w.read()))
			w.writes = nil
			end(w)
			w.callable()
			w.wrote()
			if w.asked != 1 {
				t.Errorf("asked %d times, want once", w.asked)
			}
		})
	}
}

func TestTakenOverExtensionIsNotCalled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ext())
	w.reconcile()
	w.ours = func(obj client.Object) bool { return obj.GetLabels()["cluster.x-k8s.io/watch-filter"] == "" }
	w.gone(t.Context(), "ext")
	w.callable("a.ext", "b.ext")
	w.change(func(c *runtimev1.ExtensionConfig) {
		c.Labels = map[string]string{"cluster.x-k8s.io/watch-filter": "theirs"}
	})
	w.gone(t.Context(), "ext")
	w.callable()
}

func TestWhatIsDeletedWhileItIsAskedIsNotRegistered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ext(discoveredBefore))
	w.answer = func(ctx context.Context, c *runtimev1.ExtensionConfig) (*hooksv1.DiscoveryResponse, error) {
		w.callable("old.ext")
		w.must(w.client.Delete(ctx, w.read()))
		w.gone(ctx, "ext")
		w.callable()
		return says(answers("a"))(ctx, c)
	}
	if _, err := w.Reconcile(t.Context(), w.read()); err != nil {
		t.Fatal(err)
	}
	w.callable()
	if w.attempts.has("ext") {
		t.Error("its attempt is remembered")
	}
}

func TestLateDeletionEventKeepsNewConfigOfSameName(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ext())
	w.reconcile()
	old := w.read()
	w.must(w.client.Delete(t.Context(), old))
	next := ext(func(c *runtimev1.ExtensionConfig) { c.UID = "2" })
	w.must(w.client.Create(t.Context(), next))

	// The next one is not known yet: the handlers of the old one must not be called.
	w.gone(t.Context(), "ext")
	w.callable()

	w.answer = says(answers("c"))
	w.reconcile()
	w.callable("c.ext")
	w.gone(t.Context(), "ext")
	w.callable("c.ext")
}

func TestWarmUpRegistersHandlersOfStatus(t *testing.T) {
	t.Parallel()
	named := func(name string, edits ...func(*runtimev1.ExtensionConfig)) client.Object {
		c := ext(edits...)
		c.Name = name
		return c
	}
	w := newWorld(t,
		ext(discoveredBefore),
		named("never-discovered"),
		named("foreign", discoveredBefore),
		named("going", discoveredBefore, func(c *runtimev1.ExtensionConfig) {
			c.Finalizers, c.DeletionTimestamp = []string{"example.com/mine"}, &metav1.Time{Time: time.Unix(1, 0)}
		}))
	w.ours = func(obj client.Object) bool { return obj.GetName() != "foreign" }
	w.must(warmUp{w.Reconciler}.Start(t.Context()))
	w.callable("old.ext")
	if want := []string{"ext", "never-discovered"}; !slices.Equal(w.expected, want) {
		t.Errorf("expected %v, want %v", w.expected, want)
	}
	if len(w.tried) != 0 || w.asked != 0 {
		t.Errorf("tried %v, asked %d times", w.tried, w.asked)
	}
}

func TestWarmUpDoesNotUndoWhatAReconcileFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ext(discoveredBefore))
	stale := w.read()
	w.reconcile()
	w.client = shows{w.client, stale}
	w.Mgmt = w.client
	w.must(warmUp{w.Reconciler}.Start(t.Context()))
	w.callable("a.ext", "b.ext")
	if want := []string{"ext", "ext"}; !slices.Equal(w.tried, want) {
		t.Errorf("tried %v: the attempt before the expectation must count", w.tried)
	}
}

// shows is a client that lists an old state.
type shows struct {
	client.Client
	old *runtimev1.ExtensionConfig
}

func (s shows) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*runtimev1.ExtensionConfigList).Items = []runtimev1.ExtensionConfig{*s.old}
	return nil
}
