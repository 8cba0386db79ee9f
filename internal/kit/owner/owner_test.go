// SPDX-License-Identifier: Apache-2.0

package owner

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// TestReferencesAreHealed has objects whose references to an owner bear a version that
// is no longer served, or a UID from before a restore.
func TestReferencesAreHealed(t *testing.T) {
	t.Parallel()
	now := metav1.OwnerReference{APIVersion: "x.io/v2", Kind: "Host", Name: "h", UID: "now", Controller: new(true), BlockOwnerDeletion: new(true)}
	with := func(change func(*metav1.OwnerReference)) metav1.OwnerReference {
		r := *now.DeepCopy()
		change(&r)
		return r
	}
	plain := func(r *metav1.OwnerReference) { r.Controller, r.BlockOwnerDeletion = nil, nil }
	for name, tc := range map[string]struct {
		refs, want []metav1.OwnerReference // want is refs if it is nil
	}{
		"none":            {},
		"as it should be": {refs: []metav1.OwnerReference{now}},
		"an old version": {
			refs: []metav1.OwnerReference{with(func(r *metav1.OwnerReference) { r.APIVersion = "x.io/v1" })}, want: []metav1.OwnerReference{now},
		},
		"an earlier UID": {
			refs: []metav1.OwnerReference{with(func(r *metav1.OwnerReference) { r.UID = "before" })}, want: []metav1.OwnerReference{now},
		},
		"it stays what it is": {
			refs: []metav1.OwnerReference{with(func(r *metav1.OwnerReference) { plain(r); r.APIVersion = "x.io/v1" })},
			want: []metav1.OwnerReference{with(plain)},
		},
		"another's": {refs: []metav1.OwnerReference{
			with(func(r *metav1.OwnerReference) { r.APIVersion = "y.io/v1" }), with(func(r *metav1.OwnerReference) { r.Name = "other"; r.UID = "other" }),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", OwnerReferences: tc.refs}}
			c := fake.NewClientBuilder().WithObjects(obj.DeepCopy()).Build()
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
				t.Fatal(err)
			}
			version := obj.ResourceVersion
			gone := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "gone", ResourceVersion: "1", OwnerReferences: tc.refs}}
			if err := HealAll(t.Context(), c, []*corev1.ConfigMap{gone, obj}, now); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.refs, obj.OwnerReferences); diff != "" {
				t.Errorf("the cache's object has changed (-want +got):\n%s", diff)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
				t.Fatal(err)
			}
			want := tc.want
			if want == nil {
				want = tc.refs
			}
			if diff := cmp.Diff(want, obj.OwnerReferences); diff != "" {
				t.Errorf("references (-want +got):\n%s", diff)
			}
			if wrote := obj.ResourceVersion != version; wrote != (tc.want != nil) {
				t.Errorf("wrote: %t, want %t", wrote, tc.want != nil)
			}
		})
	}
}

func TestSetMatchesOwnerByGroupKindAndName(t *testing.T) {
	t.Parallel()
	ref := metav1.OwnerReference{APIVersion: "x.io/v1", Kind: "Host", Name: "h", UID: "1"}
	as := func(change func(*metav1.OwnerReference)) metav1.OwnerReference {
		r := ref
		change(&r)
		return r
	}
	controls := as(func(r *metav1.OwnerReference) { r.Controller = new(true) })
	newer := as(func(r *metav1.OwnerReference) { r.APIVersion, r.UID = "x.io/v2", "2" })
	core := as(func(r *metav1.OwnerReference) { r.APIVersion = "v1" })
	for name, tc := range map[string]struct {
		have    []metav1.OwnerReference
		set     metav1.OwnerReference
		want    []metav1.OwnerReference
		changed bool
	}{
		"the first":                       {nil, ref, []metav1.OwnerReference{ref}, true},
		"the same":                        {[]metav1.OwnerReference{ref}, ref, []metav1.OwnerReference{ref}, false},
		"false and unset are the same":    {[]metav1.OwnerReference{ref}, as(func(r *metav1.OwnerReference) { r.Controller, r.BlockOwnerDeletion = new(false), new(false) }), []metav1.OwnerReference{ref}, false},
		"it becomes the controller":       {[]metav1.OwnerReference{core, ref}, controls, []metav1.OwnerReference{core, controls}, true},
		"it was created again":            {[]metav1.OwnerReference{ref, core}, newer, []metav1.OwnerReference{newer, core}, true},
		"another group":                   {[]metav1.OwnerReference{core}, ref, []metav1.OwnerReference{core, ref}, true},
		"another of its kind":             {[]metav1.OwnerReference{ref}, as(func(r *metav1.OwnerReference) { r.Name = "i" }), []metav1.OwnerReference{ref, as(func(r *metav1.OwnerReference) { r.Name = "i" })}, true},
		"another kind with the same name": {[]metav1.OwnerReference{ref}, as(func(r *metav1.OwnerReference) { r.Kind = "Rack" }), []metav1.OwnerReference{ref, as(func(r *metav1.OwnerReference) { r.Kind = "Rack" })}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cached := append(make([]metav1.OwnerReference, 0, 4), tc.have...) // with space: an append would write to it
			obj := &metav1.ObjectMeta{OwnerReferences: cached}
			if changed := Set(obj, tc.set); changed != tc.changed {
				t.Errorf("changed: %t", changed)
			}
			if diff := cmp.Diff(tc.want, obj.OwnerReferences); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(append(tc.have, metav1.OwnerReference{}), cached[:len(cached)+1]); diff != "" {
				t.Errorf("the cache's list (-was +is):\n%s", diff)
			}
		})
	}
	obj := &metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{newer, core}}
	hosts := schema.GroupKind{Group: "x.io", Kind: "Host"}
	if !Has(obj, hosts, "h") || Has(obj, hosts, "i") || Name(obj, hosts) != "h" || Name(obj, schema.GroupKind{Group: "y.io", Kind: "Host"}) != "" {
		t.Error("an owner is not found by its group, kind and name alone")
	}
	if RemoveFunc(obj, func(r metav1.OwnerReference) bool { return r.Name == "z" }) || !RemoveFunc(obj, func(r metav1.OwnerReference) bool { return Same(r, ref) }) || len(obj.OwnerReferences) != 1 {
		t.Errorf("left: %+v", obj.OwnerReferences)
	}
}

func TestSelectorOfNothingAdoptsNothing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		of   *metav1.LabelSelector
		want bool // of an object with a=b
		fail string
	}{
		"nothing":           {nil, false, ""},
		"an empty one":      {&metav1.LabelSelector{}, false, ""},
		"a label":           {&metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, true, ""},
		"another label":     {&metav1.LabelSelector{MatchLabels: map[string]string{"a": "c"}}, false, ""},
		"a broken one":      {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}, false, `read spec.selector: "Near"`},
		"all without a key": {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "c", Operator: metav1.LabelSelectorOpDoesNotExist}}}, true, ""},
	} {
		s, err := Selector(tc.of)
		if tc.fail != "" {
			if err == nil || !strings.HasPrefix(err.Error(), tc.fail) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || s.Matches(labels.Set{"a": "b"}) != tc.want {
			t.Errorf("%s: selects %t, %v", name, !tc.want, err)
		}
	}
}

func TestDivideSparesObjectsOfOthers(t *testing.T) {
	t.Parallel()
	of := func(name string, change func(*metav1.ObjectMeta)) corev1.ConfigMap {
		c := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
		change(&c.ObjectMeta)
		return c
	}
	by := func(uid string, controls bool) func(*metav1.ObjectMeta) {
		return func(m *metav1.ObjectMeta) {
			m.OwnerReferences = []metav1.OwnerReference{{UID: "x"}, {UID: types.UID(uid), Controller: &controls}}
		}
	}
	items := []corev1.ConfigMap{
		of("mine", by("1", true)), of("another's", by("2", true)), of("owned, not controlled", by("1", false)), of("free", func(*metav1.ObjectMeta) {}),
		of("free, being deleted", func(m *metav1.ObjectMeta) { m.DeletionTimestamp = new(metav1.Unix(1, 0)) }),
		of("mine, being deleted", func(m *metav1.ObjectMeta) { by("1", true)(m); m.DeletionTimestamp = new(metav1.Unix(1, 0)) }),
	}
	mine, orphans := Divide(items, "1")
	var got []string
	for _, list := range [][]*corev1.ConfigMap{mine, orphans} {
		for _, c := range list {
			got = append(got, c.Name)
		}
		got = append(got, "|")
	}
	if diff := cmp.Diff("mine mine, being deleted | owned, not controlled free |", strings.Join(got, " ")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestClusterIsThatOfLabel(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("no connection")
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "1"}}).
		WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if key.Name == "broken" {
				return broken
			}
			return c.Get(ctx, key, obj, opts...)
		}}).Build()
	for label, want := range map[string]string{"c": "c", "": "", "gone": ""} {
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x"}}
		if Label(obj, label) != (label != "") || Label(obj, label) {
			t.Errorf("%q: the label is reported wrongly", label)
		}
		got, err := Cluster(t.Context(), c, obj)
		if err != nil || (got == nil) != (want == "") || got != nil && OfCluster(got) != (metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Name: want, UID: "1"}) {
			t.Errorf("%q: %v, %v", label, got, err)
		}
	}
	if got, err := ClusterByName(t.Context(), c, "other", "c"); got != nil || err != nil {
		t.Errorf("of another namespace: %v, %v", got, err)
	}
	if got, err := ClusterByName(t.Context(), c, "ns", "broken"); got != nil || !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "get Cluster ns/broken: ") {
		t.Errorf("without a connection: %v, %v", got, err)
	}
	ref, err := Controller(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "1"}}, c)
	if err != nil || ref.Kind != "Cluster" || !*ref.Controller || !*ref.BlockOwnerDeletion {
		t.Errorf("controller %+v, %v", ref, err)
	}
	if _, err := Reference(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x"}}, c); err == nil || !strings.HasPrefix(err.Error(), "kind of owner ns/x: ") {
		t.Errorf("an owner of an unknown kind: %v", err)
	}
}
