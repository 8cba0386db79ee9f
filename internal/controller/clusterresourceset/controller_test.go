// SPDX-License-Identifier: Apache-2.0

package clusterresourceset

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/resourcesets"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/kit/writes"
)

// world is a management cluster with one Cluster, and counts writes.
type world struct {
	*testing.T
	client.Client
	reconciler Reconciler
	writes     []string
	refuse     error // of every write of a ConfigMap
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), clusterv1.AddToScheme(scheme), addonsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", Labels: map[string]string{"a": "b"}}}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x"}}
	w.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, cluster, config)...).
		WithStatusSubresource(&addonsv1.ClusterResourceSet{}).
		WithInterceptorFuncs(writes.Before(func(verb string, obj client.Object) error {
			w.writes = append(w.writes, verb)
			if obj.GetName() == "x" {
				return w.refuse
			}
			return nil
		})).Build()
	w.reconciler = Reconciler{Deps: deps.Deps{Mgmt: w, Clock: testclock.NewFakeClock(time.Unix(1e9, 0)), Deprecated: true}, Payloads: resourcesets.New(w, nil)}
	return w
}

func set(name string) *addonsv1.ClusterResourceSet {
	s := &addonsv1.ClusterResourceSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u", Finalizers: []string{addonsv1.ClusterResourceSetFinalizer}}}
	s.Spec.ClusterSelector.MatchLabels = map[string]string{"a": "b"}
	s.Spec.Resources = []addonsv1.ResourceRef{{Kind: "ConfigMap", Name: "x"}}
	return s
}

func (w *world) get(name string, obj client.Object) error {
	return w.Get(w.Context(), client.ObjectKey{Namespace: "ns", Name: name}, obj)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// reconcile does it once, and returns what was written.
func (w *world) reconcile(name string) []string {
	w.Helper()
	w.writes = nil
	s := &addonsv1.ClusterResourceSet{}
	w.must(w.get(name, s))
	if _, err := w.reconciler.Reconcile(w.Context(), s); err != nil {
		w.Fatal(err)
	}
	return w.writes
}

func TestTheFirstByNameMakesTheBinding(t *testing.T) {
	t.Parallel()
	paused, deleted, other := set("a-paused"), set("b-deleted"), set("c-selects-others")
	paused.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	deleted.DeletionTimestamp = new(metav1.Unix(1e9, 0))
	other.Spec.ClusterSelector.MatchLabels["a"] = "c"
	w := newWorld(t, paused, deleted, other, set("d"), set("e"))
	w.reconcile("e")
	b := &addonsv1.ClusterResourceSetBinding{}
	if err := w.get("c", b); !apierrors.IsNotFound(err) {
		t.Fatalf("the last has made it: %v", err)
	}
	w.reconcile("d")
	w.must(w.get("c", b))
	if b.Spec.ClusterName != "c" || !owner.Has(b, addonsv1.GroupVersion().WithKind("ClusterResourceSet").GroupKind(), "d") {
		t.Errorf("binding %+v", b)
	}
	if got := w.reconcile("e"); slices.Contains(got, "create") {
		t.Errorf("writes %q", got)
	}
}

// TestPausedClusterGetsBindingAfterResume: the binding of a Cluster in a move
// is moved after it.
func TestPausedClusterGetsBindingAfterResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t, set("a"))
	cluster, s := &clusterv1.Cluster{}, &addonsv1.ClusterResourceSet{}
	w.must(w.get("c", cluster))
	cluster.Spec.Paused = new(true)
	w.must(w.Update(t.Context(), cluster))
	if got := w.reconcile("a"); slices.Contains(got, "create") {
		t.Errorf("paused: writes %q", got)
	}
	w.must(w.get("a", s))
	if c := conditions.Get(s, addonsv1.ClusterResourceSetResourcesAppliedCondition); c == nil || c.Message != "Cluster c: no ClusterResourceSetBinding yet: it is paused" {
		t.Errorf("condition %+v", c)
	}
	cluster.Spec.Paused = nil
	w.must(w.Update(t.Context(), cluster))
	if got := w.reconcile("a"); !slices.Contains(got, "create") {
		t.Errorf("no longer paused: writes %q", got)
	}
}

func TestResourcesAreOwnedByAllThatNameThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, set("a"), set("b"))
	w.reconcile("a")
	w.reconcile("b")
	config := &corev1.ConfigMap{}
	w.must(w.get("x", config))
	if len(config.OwnerReferences) != 2 || config.OwnerReferences[0].Controller != nil {
		t.Errorf("owners %+v", config.OwnerReferences)
	}
	w.reconcile("a")
	if got := w.reconcile("a"); len(got) != 0 {
		t.Errorf("writes in steady state %q", got)
	}
}

// TestAConflictIsNotReported: two ClusterResourceSets may name one ConfigMap, and
// the later one retries immediately.
func TestAConflictIsNotReported(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		refuse error
		want   string
	}{
		"conflict": {apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "x", nil), ""},
		"refusal":  {apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "x", nil), addonsv1.ClusterResourceSetResourcesAppliedInternalErrorReason},
	} {
		w := newWorld(t, set("a"))
		w.refuse = tc.refuse
		s := &addonsv1.ClusterResourceSet{}
		w.must(w.get("a", s))
		if _, err := w.reconciler.Reconcile(t.Context(), s); err == nil {
			t.Errorf("%s: no error", name)
		}
		if got := conditions.Reason(s, addonsv1.ClusterResourceSetResourcesAppliedCondition); got != tc.want {
			t.Errorf("%s: reason %q, want %q", name, got, tc.want)
		}
	}
}

func TestSetStaysUntilNoBindingRefersToIt(t *testing.T) {
	t.Parallel()
	deleted := set("a")
	deleted.DeletionTimestamp = new(metav1.Unix(1e9, 0))
	b := &addonsv1.ClusterResourceSetBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
	b.Spec.Bindings = []addonsv1.ResourceSetBinding{{ClusterResourceSetName: "a"}}
	w := newWorld(t, deleted, b)
	w.reconcile("a")
	w.must(w.get("a", &addonsv1.ClusterResourceSet{}))
	b.Spec.Bindings = nil
	w.must(w.Update(t.Context(), b))
	w.reconcile("a")
	if err := w.get("a", &addonsv1.ClusterResourceSet{}); !apierrors.IsNotFound(err) {
		t.Errorf("it is there still: %v", err)
	}
}

func TestASetThatIsPausedDoesNothing(t *testing.T) {
	t.Parallel()
	paused := set("a")
	paused.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	w := newWorld(t, paused)
	w.reconcile("a")
	if err := w.get("c", &addonsv1.ClusterResourceSetBinding{}); !apierrors.IsNotFound(err) {
		t.Errorf("a binding was made: %v", err)
	}
	w.must(w.get("a", paused))
	if !conditions.IsTrue(paused, clusterv1.PausedCondition) {
		t.Errorf("conditions %+v", paused.Status.Conditions)
	}
}

// TestResourcesThatCannotBeAppliedAreReported: others of the set are owned anyway.
func TestResourcesThatCannotBeAppliedAreReported(t *testing.T) {
	t.Parallel()
	s := set("a")
	s.Spec.Resources = append([]addonsv1.ResourceRef{{Kind: "ConfigMap", Name: "none"}, {Kind: "Secret", Name: "password"}}, s.Spec.Resources...)
	w := newWorld(t, s, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "password"}, Type: corev1.SecretTypeOpaque})
	w.reconcile("a")
	config, secret := &corev1.ConfigMap{}, &corev1.Secret{}
	w.must(errors.Join(w.get("x", config), w.get("password", secret), w.get("a", s)))
	if len(config.OwnerReferences) != 1 || len(secret.OwnerReferences) != 0 {
		t.Errorf("owners %v and, of a Secret of another type, %v", config.OwnerReferences, secret.OwnerReferences)
	}
	if c := conditions.Get(s, addonsv1.ClusterResourceSetResourcesAppliedCondition); c == nil || c.Status != metav1.ConditionFalse || c.ObservedGeneration != s.Generation {
		t.Errorf("condition %+v", c)
	}
}
