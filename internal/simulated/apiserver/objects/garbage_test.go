// SPDX-License-Identifier: Apache-2.0

package objects_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

// add creates a ConfigMap that others own.
func (y yard) add(name string, block bool, owners ...*corev1.ConfigMap) *corev1.ConfigMap {
	y.Helper()
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, OwnerReferences: ownedBy(block, owners)}}
	if err := y.store.Add(c); err != nil {
		y.Fatal(err)
	}
	return c
}

func ownedBy(block bool, owners []*corev1.ConfigMap) (refs []metav1.OwnerReference) {
	for _, o := range owners {
		refs = append(refs, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: o.Name, UID: o.UID, BlockOwnerDeletion: &block})
	}
	return refs
}

// own gives a ConfigMap more owners.
func (y yard) own(c *corev1.ConfigMap, block bool, owners ...*corev1.ConfigMap) {
	y.Helper()
	if err := objects.Modify(y.store, c, func(c *corev1.ConfigMap) error {
		c.OwnerReferences = append(c.OwnerReferences, ownedBy(block, owners)...)
		return nil
	}); err != nil {
		y.Fatal(err)
	}
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
	y.own(a, false, a, b)
	y.finalizers(a, "x/a")
	y.finalizers(b, "x/b")
	for range 2 {
		y.delete("a")
		y.want("what a finalizer keeps still owns", "a leaves [x/a]", "b")
	}
	y.finalizers(a)
	y.want("after the first", "b leaves [x/b]")
	y.finalizers(b)
	y.want("in the end")
}

// TestForegroundDeletionEndsWhereOwnersFormACycle: each would wait for the others.
func TestForegroundDeletionEndsWhereOwnersFormACycle(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ length, finalizer int }{
		"an owner of itself": {1, -1}, "two": {2, -1}, "three": {3, -1}, "two, one of which stays": {2, 1}, "four, one of which stays": {4, 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newYard(t)
			ring := make([]*corev1.ConfigMap, tc.length)
			for i := range ring {
				ring[i] = y.add(fmt.Sprint("ring-", i), false)
			}
			for i, c := range ring {
				y.own(c, true, ring[(i+tc.length-1)%tc.length])
			}
			if tc.finalizer >= 0 {
				y.finalizers(ring[tc.finalizer], "x/a")
			}
			y.delete("ring-0", foreground)
			if tc.finalizer >= 0 {
				y.finalizers(ring[tc.finalizer])
			}
			y.want("in the end")
		})
	}
}

// TestForegroundDeletionKeepsNoDiamond: the two owners of an object are deleted
// together, whichever comes first.
func TestForegroundDeletionKeepsNoDiamond(t *testing.T) {
	t.Parallel()
	for range 8 { // in random orders
		y := newYard(t)
		top := y.add("a-top", false)
		side := y.add("b-side", true, top)
		y.finalizers(side, "x/b")
		y.add("c-bottom", true, top, side)
		y.delete("a-top", foreground)
		y.finalizers(side)
		y.want("in the end")
	}
}

func TestForegroundDeletionCollectsNewDependents(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	owner := y.add("a", false)
	held := y.add("b", true, owner)
	y.finalizers(held, "x/b")
	y.delete("a", foreground)
	y.add("late", true, owner)
	y.want("while the owner waits", "a leaves [foregroundDeletion]", "b leaves [x/b]")
	y.finalizers(held)
	y.want("in the end")
}

// TestUnresolvableOwnersKeepObjects: a garbage collector deletes nothing for an owner that
// it cannot look up.
func TestUnresolvableOwnersKeepObjects(t *testing.T) {
	t.Parallel()
	reference := func(apiVersion, kind string) string {
		return "ownerReferences: [{apiVersion: " + apiVersion + ", kind: " + kind + ", name: x, uid: x}]"
	}
	tests := map[string]struct {
		text string
		kept bool
	}{
		"a Node that is absent":                 {"kind: ConfigMap, metadata: {namespace: default, name: c, " + reference("v1", "Node") + "}", false},
		"an object of a kind that is unknown":   {"kind: ConfigMap, metadata: {namespace: default, name: c, " + reference("example.com/v1", "Thing") + "}", true},
		"a ConfigMap, of a Node":                {"kind: Node, metadata: {name: 'n', " + reference("v1", "ConfigMap") + "}", true},
		"a Namespace that is absent, of a Node": {"kind: Node, metadata: {name: 'n', " + reference("v1", "Namespace") + "}", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newYard(t)
			if got := y.latest(y.mustCreate("{apiVersion: v1, " + tc.text + "}")); (got != nil) != tc.kept {
				t.Errorf("got %v, want it kept %t", got, tc.kept)
			}
		})
	}
}

func TestObjectsHaveNoOwnersInOtherNamespaces(t *testing.T) {
	t.Parallel()
	for _, policy := range []metav1.DeletionPropagation{background, foreground} {
		y := newYard(t)
		owner := y.add("owner", false)
		n := node("n")
		n.OwnerReferences = ownedBy(true, []*corev1.ConfigMap{owner})
		if err := y.store.Add(n); err != nil {
			t.Fatal(err)
		}
		other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "c", OwnerReferences: ownedBy(true, []*corev1.ConfigMap{owner})}}
		if err := y.store.Add(other); err != nil {
			t.Fatal(err)
		}
		if err := y.store.Load(other); !apierrors.IsNotFound(err) {
			t.Errorf("an object whose owner is not in its namespace: %v, want it deleted", err)
		}
		y.delete("owner", policy)
		y.want("the owner waits for no Node")
		if err := y.store.Load(n); err != nil {
			t.Errorf("a Node with an owner in a namespace: %v, want it kept", err)
		}
	}
}

// TestCollectedObjectsKeepTheirPropagation: a garbage collector orphans dependents if the
// finalizers of an object define that.
func TestCollectedObjectsKeepTheirPropagation(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	top := y.add("a", false)
	middle := y.add("b", false, top)
	y.add("c", false, middle)
	y.finalizers(middle, metav1.FinalizerOrphanDependents)
	y.delete("a")
	y.want("in the end", "c")
}

// TestDeletionResumesAfterRestart: a process can end at any write.
func TestDeletionResumesAfterRestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	open := func() yard {
		s, err := objects.Open(objects.Options{Clock: clock.RealClock{}, Journal: store.FileAt(path, logr.Discard())})
		if err != nil {
			t.Fatal(err)
		}
		return yard{T: t, store: s}
	}
	y := open()
	owner, waiting := y.add("a-owner", false), y.add("b-waiting", false)
	y.add("c-owned", false, owner)
	y.add("d-awaited", true, waiting)
	y.add("e-other", false)
	team := y.mustCreate("{apiVersion: v1, kind: Namespace, metadata: {name: team}}")
	raw := y.store.Entries()
	key := func(name string) store.Key {
		return store.Key{Resource: schema.GroupResource{Resource: "configmaps"}, Namespace: "default", Name: name}
	}
	last := raw.Get(key("a-owner"))
	if _, err := raw.Delete(last.Key, last, func(uint64) (*store.Entry, error) { return &store.Entry{UID: last.UID, Raw: last.Raw}, nil }); err != nil {
		t.Fatal(err)
	}
	mark := func(u *unstructured.Unstructured, k store.Key, finalizers ...string) {
		u.SetDeletionTimestamp(new(metav1.NewTime(start)))
		u.SetFinalizers(finalizers)
		was := raw.Get(k)
		if _, err := raw.Put(k, was, func(version uint64) (*store.Entry, error) {
			u.SetResourceVersion(fmt.Sprint(version))
			text, err := u.MarshalJSON()
			return &store.Entry{UID: u.GetUID(), Raw: text}, err
		}); err != nil {
			t.Fatal(err)
		}
	}
	u, err := objects.Parse(raw.Get(key("b-waiting")))
	if err != nil {
		t.Fatal(err)
	}
	mark(u, key("b-waiting"), metav1.FinalizerDeleteDependents)
	mark(team, store.Key{Resource: schema.GroupResource{Resource: "namespaces"}, Name: "team"})

	y = open()
	y.want("after a restart", "e-other")
	if got := y.latest(team); got != nil {
		t.Errorf("left namespace %v", got)
	}
	version := y.store.Entries().Version()
	if again := open().store.Entries().Version(); again != version {
		t.Errorf("another restart writes %d versions, want none", again-version)
	}
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
