// SPDX-License-Identifier: Apache-2.0

package objects_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

// yard is a store, with names for its objects.
type yard struct {
	*testing.T
	store *objects.Store
}

func newYard(t *testing.T) yard {
	t.Helper()
	s, err := objects.Open(objects.Options{Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	return yard{t, s}
}

// add creates a ConfigMap that others own.
func (y yard) add(name string, block bool, owners ...*corev1.ConfigMap) *corev1.ConfigMap {
	y.Helper()
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	for _, o := range owners {
		c.OwnerReferences = append(c.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: o.Name, UID: o.UID, BlockOwnerDeletion: &block})
	}
	if err := y.store.Add(c); err != nil {
		y.Fatal(err)
	}
	return c
}

func (y yard) finalizers(c *corev1.ConfigMap, names ...string) {
	y.Helper()
	if err := objects.Modify(y.store, c, func(c *corev1.ConfigMap) error {
		c.Finalizers = names
		return nil
	}); err != nil {
		y.Fatal(err)
	}
}

func (y yard) delete(name string, policy ...metav1.DeletionPropagation) {
	y.Helper()
	o := metav1.DeleteOptions{}
	for _, p := range policy {
		o.PropagationPolicy = &p
	}
	if _, _, err := y.store.Delete(kinds.ByType(&corev1.ConfigMap{}), "default", name, o); err != nil {
		y.Fatal(err)
	}
}

func (y yard) want(what string, want ...string) {
	y.Helper()
	all, err := y.store.All(corev1.SchemeGroupVersion.WithResource("configmaps"), "default", nil)
	if err != nil {
		y.Fatal(err)
	}
	var got []string
	for _, u := range all {
		line := u.GetName()
		if u.GetDeletionTimestamp() != nil {
			line += fmt.Sprint(" leaves ", u.GetFinalizers())
		}
		got = append(got, line)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		y.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestUnownedObjectsAreDeleted(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	gone := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "gone", UID: "gone"}}
	y.add("a", false, gone)
	y.want("of an owner that never was")
	one, two := y.add("one", false), y.add("two", false)
	y.add("b", false, one, two)
	y.delete("one")
	y.want("as long as it has another", "b", "two")
	y.delete("two")
	y.want("after the last")
}

func TestAForegroundDeletionWaitsForWhatBlocksItAllTheWayDown(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	top := y.add("a-top", false)
	middle := y.add("b-middle", true, top)
	held := y.add("c-held", true, middle)
	y.finalizers(held, "x/a")
	free := y.add("d-free", false, top)
	y.finalizers(free, "x/b")
	y.delete("a-top", metav1.DeletePropagationForeground)
	y.want("at first", "a-top leaves [foregroundDeletion]", "b-middle leaves [foregroundDeletion]", "c-held leaves [x/a]", "d-free leaves [x/b]")
	y.finalizers(held)
	y.want("what does not block is not waited for", "d-free leaves [x/b]")
	y.finalizers(free)
	y.want("in the end")
}

func TestFinalizersDecideDeletionOfDependents(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	parent := y.add("a", false)
	y.add("b", true, parent)
	y.finalizers(parent, metav1.FinalizerOrphanDependents)
	y.delete("a")
	y.want("an orphan stays", "b")
}

// TestDeletionEndsWhereOwnersFormACycle: a stack without end would end the process.
func TestDeletionEndsWhereOwnersFormACycle(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	a := y.add("a", false)
	b := y.add("b", false, a)
	own := func(c *corev1.ConfigMap, by ...*corev1.ConfigMap) {
		if err := objects.Modify(y.store, c, func(c *corev1.ConfigMap) error {
			for _, o := range by {
				c.OwnerReferences = append(c.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: o.Name, UID: o.UID})
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	own(a, a, b)
	y.finalizers(a, "x/a")
	y.finalizers(b, "x/b")
	for range 2 {
		y.delete("a")
		y.want("while finalizers keep both", "a leaves [x/a]", "b leaves [x/b]")
	}
	y.finalizers(a)
	y.want("after the first", "b leaves [x/b]")
	y.finalizers(b)
	y.want("in the end")
}

func TestDeletionLeavesDependentsThatAreNotServed(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	owner := y.add("a", false)
	key := store.Key{Resource: schema.GroupResource{Group: "example.com", Resource: "things"}, Namespace: "default", Name: "b"}
	if _, err := y.store.Entries().Put(key, nil, func(uint64) (*store.Entry, error) {
		return &store.Entry{UID: "b", Owners: []types.UID{owner.UID}, Raw: []byte("{}")}, nil
	}); err != nil {
		t.Fatal(err)
	}
	y.delete("a", metav1.DeletePropagationOrphan)
	y.want("of the owner")
}

func TestAJobLeavesItsPodsUnlessToldOtherwise(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "j"}}
	j.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "v1"}}
	j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	if err := y.store.Add(j); err != nil {
		t.Fatal(err)
	}
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "of-the-job"}}
	c.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))}
	if err := y.store.Add(c); err != nil {
		t.Fatal(err)
	}
	if err := y.store.Remove(batchv1.SchemeGroupVersion.WithResource("jobs"), "default", "j"); err != nil {
		t.Fatal(err)
	}
	y.want("as API servers have it", "of-the-job")
}

func TestANamespaceSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}
	if err := y.store.Add(ns); err != nil {
		t.Fatal(err)
	}
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "held", Finalizers: []string{"x/a"}}}
	if err := y.store.Add(held); err != nil {
		t.Fatal(err)
	}
	if err := y.store.Remove(corev1.SchemeGroupVersion.WithResource("namespaces"), "", "team"); err != nil {
		t.Fatal(err)
	}
	if err := y.store.Load(ns); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range ns.Status.Conditions {
		got = append(got, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	want := []string{
		"NamespaceDeletionDiscoveryFailure=False ResourcesDiscovered: All resources successfully discovered",
		"NamespaceDeletionGroupVersionParsingFailure=False ParsedGroupVersions: All legacy kube types successfully parsed",
		"NamespaceDeletionContentFailure=False ContentDeleted: All content successfully deleted, may be waiting on finalization",
		"NamespaceContentRemaining=True SomeResourcesRemain: Some resources are remaining: configmaps. has 1 resource instances",
		"NamespaceFinalizersRemaining=True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: x/a in 1 resource instances",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	y.finalizers(held)
	if err := y.store.Load(ns); !apierrors.IsNotFound(err) {
		t.Errorf("a namespace that holds nothing any more: %v", err)
	}
}
