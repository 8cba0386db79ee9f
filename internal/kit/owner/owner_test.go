// SPDX-License-Identifier: Apache-2.0

package owner

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
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
