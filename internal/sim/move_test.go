// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	ipamv1 "github.com/capstan-dev/capstan/api/ipam/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/move"
	"github.com/capstan-dev/capstan/clusterctl/move/plan"
)

// movable is a World with a plain cluster, one of a class, and other objects that
// move: a ClusterResourceSet that selects one, a health check, an address and its
// claim.
func movable(t *testing.T) *story {
	t.Helper()
	w := New(t)
	w.create(templates + fleetClass)
	w.Run()
	w.create(fleetCluster)
	create(t, w, "plain", 1, 1)
	identity := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "identity", Labels: map[string]string{clusterctlv1.ClusterctlMoveHierarchyLabel: ""}}}
	add(t, w, identity)
	owned := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "credentials"}, Data: map[string][]byte{"key": []byte("value")}}
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: identity.Name, UID: identity.UID}}
	add(t, w, owned)
	add(t, w, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "cloud", Labels: map[string]string{clusterctlv1.ClusterctlMoveLabel: ""}}})
	add(t, w, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "unrelated"}})
	add(t, w, configMap("cni", "{apiVersion: v1, kind: ConfigMap, metadata: {name: cni, namespace: kube-system}}"))
	add(t, w, resourceSet("cni", addonsv1.ClusterResourceSetStrategyApplyOnce, resource(addonsv1.ConfigMapClusterResourceSetResourceKind, "cni")))
	label(t, w, "plain", "yes")
	check := workersHealth()
	check.Spec.ClusterName = "plain"
	add(t, w, check)
	claim := &ipamv1.IPAddressClaim{ObjectMeta: metav1.ObjectMeta{Name: "host-0", OwnerReferences: []metav1.OwnerReference{{
		APIVersion: clusterv1.GroupVersion().String(), Kind: clusterv1.ClusterKind, Name: "plain", UID: get(t, w, "plain", &clusterv1.Cluster{}).UID,
	}}}}
	claim.Spec = ipamv1.IPAddressClaimSpec{ClusterName: "plain", PoolRef: ipamv1.IPPoolReference{APIGroup: "ipam.x.io", Kind: "Pool", Name: "rack"}}
	add(t, w, claim)
	address := &ipamv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: "host-0", OwnerReferences: []metav1.OwnerReference{{
		APIVersion: ipamv1.GroupVersion().String(), Kind: "IPAddressClaim", Name: claim.Name, UID: claim.UID,
	}}}}
	address.Spec = ipamv1.IPAddressSpec{ClaimRef: ipamv1.IPAddressClaimReference{Name: claim.Name}, PoolRef: claim.Spec.PoolRef, Address: "10.0.0.7", Prefix: new(int32(24))}
	add(t, w, address)
	w.must(w.World.Until(t.Context(), 10*time.Minute, func() bool {
		return finished(t, w, 4, "v1.33.1") || len(w.objects("Machine")) == 4 && !slices.ContainsFunc(w.objects("Machine"), func(o client.Object) bool { return !o.(*clusterv1.Machine).Status.NodeRef.IsDefined() })
	}))
	w.RunFor(time.Minute)
	return w
}

// unstructured is an object as a server gives it.
func (s *story) unstructured(obj client.Object) *unstructured.Unstructured {
	s.t.Helper()
	gvk, err := s.Mgmt.GroupVersionKindFor(obj)
	s.must(err)
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	s.must(err)
	u := &unstructured.Unstructured{Object: fields}
	u.SetGroupVersionKind(gvk)
	text, err := u.MarshalJSON()
	s.must(err)
	s.must(u.UnmarshalJSON(text)) // with numbers as a server gives them
	return u
}

// unstructuredObjects are all objects of a world as a server gives them, with the
// definitions of their kinds.
func unstructuredObjects(t *testing.T, w *story) (all, defined []*unstructured.Unstructured) {
	t.Helper()
	objects, err := w.Objects(t.Context())
	w.must(err)
	for _, obj := range objects {
		u := w.unstructured(obj)
		if kind := u.GetKind(); kind != "Cluster" && kind != "MachineSet" {
			u.SetManagedFields(nil) // they are most of the text, and much alike
		}
		all = append(all, u)
	}
	crds, err := definitions()
	w.must(err)
	for _, crd := range crds {
		u := w.unstructured(crd)
		// What a move reads of it, without schemas, which take most of the time.
		versions, _, err := unstructured.NestedSlice(u.Object, "spec", "versions")
		w.must(err)
		for _, v := range versions {
			delete(v.(map[string]any), "schema")
		}
		w.must(unstructured.SetNestedSlice(u.Object, versions, "spec", "versions"))
		defined = append(defined, u)
	}
	return all, defined
}

// moving is two management clusters in memory, and a client on the way.
type moving struct {
	t              *testing.T
	source, target *memory
	wire           *wire
	clock          *Clock
	after          string // the kind of the write after which this moment is, if run has noted it
}

// writesBefore returns the kinds of the writes before moments.
func writesBefore(moments []*moving) (kinds []string) {
	for _, m := range moments {
		kinds = append(kinds, m.after)
	}
	return kinds
}

// fork is the same moment, for another client.
func (m *moving) fork() *moving {
	f := &moving{t: m.t, source: m.source.fork(), target: m.target.fork(), wire: &wire{}, clock: NewClock(m.clock.Now())}
	f.wire.after = f.activeOnce
	return f
}

// run moves, as a separate process. It returns the moments between its writes: a
// process that crashes leaves one of them.
func (m *moving) run(rollback bool) (moments []*moving, err error) {
	m.wire.after = func() {
		m.activeOnce()
		moments = append(moments, m.fork())
		moments[len(moments)-1].after = m.wire.last
	}
	return moments, m.move(rollback)
}

func (m *moving) move(rollback bool) error {
	return move.Run(m.t.Context(), move.Options{
		Source: cutPlane{m.source, m.wire}, Target: cutPlane{m.target, m.wire}, Namespace: "default", By: "tester",
		Rollback: rollback, Parallel: 1, Clock: instant{m.clock},
	})
}

// activeOnce checks both sides after each write: a cluster that is at both is
// paused at both, and no controller reconciles a copy of what the source still has.
func (m *moving) activeOnce() {
	for _, kind := range []string{clusterv1.ClusterKind, clusterv1.ClusterClassKind} {
		item := plan.Item{Kind: plan.Kind{GroupVersionKind: clusterv1.GroupVersion().WithKind(kind)}}
		for key, here := range m.source.objects {
			there := m.target.objects[key]
			if here.GetKind() == kind && there != nil && (!plan.Paused(item, here) || !plan.Paused(item, there)) && !(plan.Paused(item, there) && plan.MarkOf(there).Operation != "") {
				m.t.Errorf("write %d: %s is at both sides, paused: %t and %t", m.wire.writes, key, plan.Paused(item, here), plan.Paused(item, there))
			}
		}
	}
}

// instant is a clock on which no time is lost with waiting.
type instant struct{ *Clock }

func (i instant) After(d time.Duration) <-chan time.Time {
	i.SetTime(i.Now().Add(d))
	done := make(chan time.Time, 1)
	done <- i.Now()
	return done
}

// byUID matches the UIDs of objects of a World, and of those that were created in
// memory.
var byUID = regexp.MustCompile(`\b(uid|source|target)-[0-9]+\b`)

// contents are what a move must keep, by name: everything except what a server
// sets, with owners by name.
func contents(m *memory, kinds map[string]bool) map[string]string {
	names := map[types.UID]string{}
	for key, obj := range m.objects {
		names[obj.GetUID()] = key
	}
	out := map[string]string{}
	for key, obj := range m.objects {
		if !kinds[obj.GetKind()] || obj.GetName() == "unrelated" {
			continue
		}
		c := obj.DeepCopy()
		delete(c.Object, "status")
		unstructured.RemoveNestedField(c.Object, "spec", "identity") // a UID that stays
		for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation"} {
			unstructured.RemoveNestedField(c.Object, "metadata", field)
		}
		if len(c.GetAnnotations()) == 0 {
			c.SetAnnotations(nil)
		}
		text, err := c.MarshalJSON()
		if err != nil {
			panic(err)
		}
		out[key] = string(byUID.ReplaceAllFunc(text, func(uid []byte) []byte { return []byte(names[types.UID(uid)]) }))
	}
	return out
}

// kept is what a test of moves compares.
type kept struct {
	kinds  map[string]bool
	before map[string]string
}

// is fails unless one side has every object unchanged, once, and the other has
// none.
func (k kept) is(what string, m *moving, has, hasNot *memory) {
	m.t.Helper()
	if diff := cmp.Diff(k.before, contents(has, k.kinds)); diff != "" {
		m.t.Fatalf("%s: what %s has (-before +after):\n%s", what, has, diff)
	}
	if left := slices.Sorted(maps.Keys(contents(hasNot, k.kinds))); len(left) > 0 {
		m.t.Fatalf("%s: %s has %v", what, hasNot, left)
	}
}

// foreign is a kind of another provider that moves by the label of its definition,
// with what it owns, and an object of it with one below.
func foreign() (objects, defined []*unstructured.Unstructured) {
	for _, doc := range []string{`
{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "pools.ipam.x.io", "uid": "crd-pools", "labels": {"clusterctl.cluster.x-k8s.io": "", "clusterctl.cluster.x-k8s.io/move-hierarchy": ""}},
 "spec": {"group": "ipam.x.io", "scope": "Namespaced", "names": {"kind": "Pool", "plural": "pools"}, "versions": [{"name": "v1", "served": true, "storage": true}]}}`, `
{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "leases.ipam.x.io", "uid": "crd-leases", "labels": {"clusterctl.cluster.x-k8s.io": ""}},
 "spec": {"group": "ipam.x.io", "scope": "Namespaced", "names": {"kind": "Lease", "plural": "leases"}, "versions": [{"name": "v1", "served": true, "storage": true}]}}`, `
{"apiVersion": "ipam.x.io/v1", "kind": "Pool", "metadata": {"name": "rack", "namespace": "default", "uid": "uid-900001", "finalizers": ["x.io/pool"]}, "spec": {"addresses": ["10.0.0.0/24"]}}`, `
{"apiVersion": "ipam.x.io/v1", "kind": "Lease", "metadata": {"name": "first", "namespace": "default", "uid": "uid-900002", "ownerReferences": [{"apiVersion": "ipam.x.io/v1", "kind": "Pool", "name": "rack", "uid": "uid-900001"}]}}`,
	} {
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON([]byte(doc)); err != nil {
			panic(err)
		}
		if obj.GetKind() == "CustomResourceDefinition" {
			defined = append(defined, obj)
		} else {
			objects = append(objects, obj)
		}
	}
	return objects, defined
}

// newMoving is two management clusters, one with everything. All tests start from
// the same moment, which the first of them creates.
func newMoving(t *testing.T) (*moving, kept) {
	t.Helper()
	madeMoving.Do(func() {
		w := movable(t)
		all, defined := unstructuredObjects(t, w)
		more, moreDefined := foreign()
		all, defined = append(all, more...), append(defined, moreDefined...)
		firstKept = kept{kinds: map[string]bool{}}
		for _, obj := range all {
			firstKept.kinds[obj.GetKind()] = true
		}
		m := &moving{clock: NewClock(w.Clock.Now()), source: newMemory("source", append(all, defined...)...), target: newMemory("target", defined...)}
		firstKept.before = contents(m.source, firstKept.kinds)
		firstMoving = m
	})
	if firstMoving == nil {
		t.Fatal("the test that made the clusters has failed")
	}
	m := firstMoving.fork()
	m.t = t
	return m, firstKept
}

// What newMoving creates once. It does not change: tests get forks.
var (
	madeMoving  sync.Once
	firstMoving *moving
	firstKept   kept
)

// TestMoveResumesOrRollsBackAfterCrash crashes a move between any two of
// its writes. Another move, or a rollback, leaves every object on one side, once,
// as it was; and no cluster is ever reconciled by both. The same holds after a
// crash of a rollback.
func TestMoveResumesOrRollsBackAfterCrash(t *testing.T) {
	t.Parallel()
	begin, kept := newMoving(t)
	calm := begin.fork()
	moments, err := calm.run(false)
	if err != nil {
		t.Fatal(err)
	}
	kept.is("undisturbed", calm, calm.target, calm.source)
	chosen := chosenWrites(writesBefore(moments[:len(moments)-1]))
	t.Logf("%d objects, %d writes, %d of them the last", len(kept.before), len(moments), len(chosen))
	for i, n := range chosen {
		what := fmt.Sprintf("crashed after write %d, %s", n+1, moments[n].after)
		on, back := moments[n].fork(), moments[n].fork()
		if err := on.move(false); err != nil {
			t.Fatalf("%s, moved again: %v", what, err)
		}
		kept.is(what+", moved again", on, on.target, on.source)
		if i%(1+len(chosen)/4) == 0 { // at four moments, crash the rollback as well
			kept.crashesRollingBack(what, back.fork())
		}
		if err := back.move(true); err == nil {
			kept.is(what+", rolled back", back, back.source, back.target)
		} else if !strings.Contains(err.Error(), "every object has left source") {
			t.Fatalf("%s, rolled back: %v", what, err)
		}
	}
}

// crashesRollingBack rolls back by a process that crashes, and again by one that does
// not.
func (k kept) crashesRollingBack(what string, m *moving) {
	m.t.Helper()
	moments, err := m.run(true)
	if err != nil {
		return // there is nothing to roll back, as a caller checks
	}
	for _, n := range chosenWrites(writesBefore(moments[:len(moments)-1])) {
		what, at := fmt.Sprintf("%s, and after write %d of rolling back", what, n+1), moments[n]
		if err := at.move(true); err != nil {
			m.t.Fatalf("%s: %v", what, err)
		}
		k.is(what, at, at.source, at.target)
	}
}

// TestAMoveWhoseAnswersAreLostIsEnded loses the answers to writes of a move, and of
// one that is rolled back, and cuts some off permanently.
func TestAMoveWhoseAnswersAreLostIsEnded(t *testing.T) {
	t.Parallel()
	begin, kept := newMoving(t)
	for parity := range 2 { // what is sent again arrives
		m := begin.fork()
		m.wire.breaks, m.wire.once = func(write int) bool { return write%2 == parity }, true
		if err := m.move(false); err != nil {
			t.Fatal(err)
		}
		kept.is("half of the answers lost", m, m.target, m.source)
	}
	for at := 20; at < 200; at += 30 {
		m := begin.fork()
		m.wire.breaks = func(write int) bool { return write == at }
		if err := m.move(false); !errors.Is(err, errReset) {
			t.Fatalf("cut off permanently: got %v", err)
		}
		m.wire = &wire{breaks: func(write int) bool { return write%2 == 1 }, once: true}
		if err := m.move(true); err != nil {
			t.Fatalf("cut off at write %d, rolled back: %v", at, err)
		}
		kept.is(fmt.Sprintf("cut off at write %d, rolled back", at), m, m.source, m.target)
	}
}
