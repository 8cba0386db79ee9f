// SPDX-License-Identifier: Apache-2.0

package clusterresourcesetbinding

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/resourceset"
)

// TestErrorsOmitTextAboutSecrets uses a response that contains
// the Secret's data.
func TestErrorsOmitTextAboutSecrets(t *testing.T) {
	t.Parallel()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x"}, Type: addonsv1.ClusterResourceSetSecretType}
	secret.Data = map[string][]byte{
		"a": []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {password: hunter2}}"),
		"b": []byte("{apiVersion: example.com/v1, kind: Widget, metadata: {name: two}, password: hunter2}"),
	}
	for name, refusal := range map[string]error{
		"invalid":            apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "hunter2", nil),
		"a word of its own":  &apierrors.StatusError{ErrStatus: metav1.Status{Reason: "hunter2", Message: "hunter2", Code: 499}},
		"no answer":          &url.Error{Op: "Post", URL: "https://hunter2", Err: errors.New("hunter2")},
		"a nonsense answer":  errors.New("hunter2"),
		"an internal error ": apierrors.NewInternalError(errors.New("hunter2")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, set("s", addonsv1.ClusterResourceSetStrategyApplyOnce, addonsv1.ResourceRef{Kind: "Secret", Name: "x"}), secret.DeepCopy())
			w.refuse = func(string) error { return refusal }
			_, _, b := w.reconcile()
			told := fmt.Sprint(b) + w.told()
			if len(resourceset.Failures(b)) != 1 || strings.Contains(told, "hunter2") {
				t.Errorf("told %s", told)
			}
		})
	}
}

func TestAClusterThatDoesNotAnswerIsAskedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, set("s", addonsv1.ClusterResourceSetStrategyApplyOnce, ref("x"), ref("y")), config("x", "one", "two"), config("y", "three"))
	w.refuse = func(string) error { return &url.Error{Op: "Post", URL: "https://x", Err: io.ErrUnexpectedEOF} }
	sent, after, b := w.reconcile()
	sends(t, "while it is silent", sent, "create ConfigMap one")
	if after != firstRetry || len(resourceset.Failures(b)) != 1 || !strings.Contains(resourceset.Failures(b)[0].Message, "does not answer") {
		t.Errorf("again in %s, failures %+v", after, resourceset.Failures(b))
	}
	w.clock.Step(after)
	w.refuse = func(string) error { return nil }
	sent, _, _ = w.reconcile()
	sends(t, "when it is back", sent, "create ConfigMap one", "create ConfigMap two", "create ConfigMap three")
}

// TestAClusterThatFallsSilentIsNotAskedForEachResource has resources that were
// refused before, and are all due at the same time.
func TestAClusterThatFallsSilentIsNotAskedForEachResource(t *testing.T) {
	t.Parallel()
	w := newWorld(t, set("s", addonsv1.ClusterResourceSetStrategyApplyOnce, ref("x"), ref("y"), ref("z")), config("x", "one"), config("y", "two"), config("z", "three"))
	w.refuse = func(string) error { return apierrors.NewInternalError(errors.New("x")) }
	_, after, _ := w.reconcile()
	w.clock.Step(after)
	w.refuse = func(string) error { return &url.Error{Op: "Post", URL: "https://x", Err: io.ErrUnexpectedEOF} }
	sent, after, _ := w.reconcile()
	sends(t, "while it is silent", sent, "create ConfigMap one")
	if after != 2*firstRetry {
		t.Errorf("again in %s, want %s", after, 2*firstRetry)
	}
}

func TestAKindIsAwaitedAndTheRestApplied(t *testing.T) {
	t.Parallel()
	x := config("x", "one")
	x.Data["a"] = "{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}}"
	w := newWorld(t, set("s", addonsv1.ClusterResourceSetStrategyApplyOnce, ref("x")), x)
	sent, after, b := w.reconcile()
	sends(t, "without the kind", sent, "create ConfigMap one")
	want := "Widget w: the API server does not serve this kind of example.com/v1 yet"
	if got := resourceset.Failures(b); after != firstRetry || len(got) != 1 || got[0].Message != want {
		t.Errorf("again in %s, failures %+v, want %s", after, got, want)
	}
	for range 12 {
		w.clock.Step(after)
		_, after, _ = w.reconcile()
	}
	if after != lastRetry || w.awaited != 13 {
		t.Errorf("again in %s, definitions were awaited %d times", after, w.awaited)
	}
	w.clock.Step(lastRetry / 2)
	key := client.ObjectKeyFromObject(b)
	if got := w.reconciler.ofKinds(t.Context(), key, nil); len(got) != 1 || got[0].NamespacedName != key {
		t.Errorf("a definition triggers %v", got)
	}
	if _, after, _ = w.reconcile(); after != firstRetry {
		t.Errorf("after a definition came: again in %s, want %s", after, firstRetry)
	}
}

// TestWhatAwaitsNoKindIsNotTriedForADefinition has a resource with another problem
// than a missing kind.
func TestWhatAwaitsNoKindIsNotTriedForADefinition(t *testing.T) {
	t.Parallel()
	w := newWorld(t, set("s", addonsv1.ClusterResourceSetStrategyApplyOnce, ref("x")), config("x", "one"))
	w.refuse = func(string) error { return apierrors.NewInternalError(errors.New("x")) }
	var after time.Duration
	for range 5 {
		_, after, _ = w.reconcile()
		w.clock.Step(after)
	}
	_, after, b := w.reconcile()
	w.reconciler.ofKinds(t.Context(), client.ObjectKeyFromObject(b), nil)
	if sent, again, _ := w.reconcile(); len(sent) != 0 || again != after || w.awaited != 0 {
		t.Errorf("sent %v, again in %s, want %s; awaited %d times", sent, again, after, w.awaited)
	}
}

func TestNothingIsSentWhileTheClusterIsPausedOrNotConnected(t *testing.T) {
	t.Parallel()
	w := newWorld(t, set("s", addonsv1.ClusterResourceSetStrategyReconcile, ref("x")), config("x", "one"))
	w.connected = false
	sent, after, b := w.reconcile()
	sends(t, "not connected", sent)
	if got := resourceset.Failures(b); after != 0 || len(got) != 1 || got[0].Message != "the Cluster is not connected" {
		t.Errorf("again in %s, failures %+v", after, got)
	}
	if w.reads != 0 {
		t.Errorf("%d reads for nothing", w.reads)
	}
	w.connected = true
	cluster := &clusterv1.Cluster{}
	w.get(cluster)
	cluster.Spec.Paused = new(true)
	w.change(cluster)
	before := b.ResourceVersion
	sent, after, b = w.reconcile()
	sends(t, "paused", sent)
	if after != 0 || b.ResourceVersion != before {
		t.Errorf("paused: again in %s, and the binding was written", after)
	}
	cluster.Spec.Paused = nil
	w.change(cluster)
	sent, _, b = w.reconcile()
	sends(t, "afterwards", sent, "apply ConfigMap one")
	if got := resourceset.Failures(b); len(got) != 0 {
		t.Errorf("failures %+v", got)
	}
}

// TestABindingOfAPausedClusterOnlyLosesDeletedSets covers a binding in another
// manager's format, which that manager compares during a move.
func TestABindingOfAPausedClusterOnlyLosesDeletedSets(t *testing.T) {
	t.Parallel()
	deleted := set("b", addonsv1.ClusterResourceSetStrategyApplyOnce, ref("x"))
	deleted.Finalizers = []string{addonsv1.ClusterResourceSetFinalizer}
	w := newWorld(t, set("a", addonsv1.ClusterResourceSetStrategyApplyOnce, ref("x")), deleted, config("x", "one"))
	cluster := &clusterv1.Cluster{}
	w.get(cluster)
	cluster.Spec.Paused = new(true)
	w.change(cluster)
	_, _, b := w.reconcile() // the binding in w
	b.Spec.Bindings = []addonsv1.ResourceSetBinding{
		{ClusterResourceSetName: "unknown-here", Resources: []addonsv1.ResourceBinding{{ResourceRef: ref("z"), Applied: new(true)}}},
		{ClusterResourceSetName: "b", Resources: []addonsv1.ResourceBinding{{ResourceRef: ref("x"), Applied: new(true)}}},
		{ClusterResourceSetName: "a", Resources: []addonsv1.ResourceBinding{{ResourceRef: ref("no-longer-named"), Applied: new(true)}}},
	}
	w.change(b)
	left := slices.Clone(b.Spec.Bindings)
	version := b.ResourceVersion
	if _, _, b = w.reconcile(); b.ResourceVersion != version {
		t.Errorf("it was written: %+v", b.Spec.Bindings)
	}
	if err := w.mgmt.Delete(t.Context(), deleted); err != nil {
		t.Fatal(err)
	}
	_, _, b = w.reconcile()
	if d := cmp.Diff(slices.Delete(left, 1, 2), b.Spec.Bindings); d != "" {
		t.Errorf("entries (-want +got):\n%s", d)
	}
}

func TestABindingGoesWithItsClusterAndItsSets(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*world){
		"the Cluster is gone": func(w *world) {
			c := &clusterv1.Cluster{}
			w.get(c)
			if err := w.mgmt.Delete(w.Context(), c); err != nil {
				w.Fatal(err)
			}
		},
		"the Cluster is being deleted": func(w *world) {
			c := &clusterv1.Cluster{}
			w.get(c)
			c.Finalizers = []string{"x/y"}
			w.change(c)
			if err := w.mgmt.Delete(w.Context(), c); err != nil {
				w.Fatal(err)
			}
		},
		"the set is being deleted": func(w *world) {
			if err := w.mgmt.Delete(w.Context(), set("s", "")); err != nil {
				w.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := set("s", addonsv1.ClusterResourceSetStrategyApplyOnce, ref("x"))
			s.Finalizers = []string{addonsv1.ClusterResourceSetFinalizer}
			w := newWorld(t, s, config("x", "one"))
			w.reconcile()
			end(w)
			sent, _, b := w.reconcile()
			sends(t, "at the end", sent)
			if err := w.mgmt.Get(t.Context(), client.ObjectKeyFromObject(b), b); !apierrors.IsNotFound(err) {
				t.Errorf("the binding is there still: %v", err)
			}
		})
	}
}

func TestKindIsUnservedOnlyIfAllErrorsAgree(t *testing.T) {
	t.Parallel()
	none := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "example.com", Kind: "Widget"}}
	gv := schema.GroupVersion{Group: "example.com", Version: "v1"}
	other := apierrors.NewInternalError(errors.New("x"))
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"no match":                   {none, true},
		"of two mappers":             {utilerrors.NewAggregate([]error{none, apierrors.NewNotFound(schema.GroupResource{}, "x")}), true},
		"of a mapper, wrapped":       {fmt.Errorf("get: %w", none), true},
		"discovery finds no version": {&apiutil.ErrResourceDiscoveryFailed{gv: apierrors.NewNotFound(schema.GroupResource{}, "x")}, true},
		"discovery fails":            {&apiutil.ErrResourceDiscoveryFailed{gv: other}, false},
		"one of two mappers fails":   {utilerrors.NewAggregate([]error{none, other}), false},
		"something else":             {other, false},
	} {
		if got := unserved(tc.err); got != tc.want {
			t.Errorf("%s: unserved %t, want %t", name, got, tc.want)
		}
	}
}

func TestAPassEndsBeforeAReconcileDoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, set("s", addonsv1.ClusterResourceSetStrategyApplyOnce, ref("x"), ref("y")), config("x", "one", "two", "zoo"), config("y", "four"))
	w.refuse = func(string) error { w.clock.Step(passLimit/2 + time.Second); return nil }
	sent, after, b := w.reconcile()
	sends(t, "first", sent, "create ConfigMap one", "create ConfigMap two")
	if after != time.Millisecond || len(resourceset.Failures(b)) != 0 {
		t.Errorf("again in %s, failures %+v", after, resourceset.Failures(b))
	}
	sent, after, b = w.reconcile()
	sends(t, "second", sent, "create ConfigMap zoo", "create ConfigMap four")
	if after != 0 || !resourceset.Applied(b.Spec.Bindings[0].Resources[1]) {
		t.Errorf("again in %s, binding %+v", after, b.Spec)
	}
}
