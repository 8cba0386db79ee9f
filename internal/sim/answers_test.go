// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// TestReadersSeeWhatWasWrittenAndNotWhatOthersChanged reads twice in each way
// after each write, and spoils what it read.
func TestReadersSeeWhatWasWrittenAndNotWhatOthersChanged(t *testing.T) {
	t.Parallel()
	s, err := newStore(Options{Clock: NewClock(time.Now())})
	if err != nil {
		t.Fatal(err)
	}
	kind := clusterv1.GroupVersion().WithKind("Cluster")
	key := client.ObjectKey{Namespace: "default", Name: "demo"}
	see := func(after, label string) {
		t.Helper()
		for range 2 {
			list, raw, meta := &clusterv1.ClusterList{}, &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}
			raw.SetGroupVersionKind(kind)
			meta.SetGroupVersionKind(kind)
			if err := s.List(t.Context(), list, client.HasLabels{"is"}); err != nil || len(list.Items) != 1 {
				t.Fatalf("after %s: %d Clusters, %v", after, len(list.Items), err)
			}
			objects := []client.Object{&clusterv1.Cluster{}, raw, meta, &list.Items[0]}
			for i, obj := range objects {
				if i < 3 {
					if err := s.Get(t.Context(), key, obj); err != nil {
						t.Fatal(err)
					}
				}
				if got := obj.GetLabels()["is"]; got != label {
					t.Errorf("after %s, %T is %q, want %q", after, obj, got, label)
				}
				obj.GetLabels()["is"] = "spoiled"
			}
		}
	}
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{"is": "new"}}}
	if err := s.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	see("creation", "new")
	before := c.DeepCopy()
	c.Labels["is"] = "patched"
	if err := s.Patch(t.Context(), c, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	see("a patch", "patched")
	c.Labels["is"] = "updated"
	if err := s.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	see("an update", "updated")
	raw := &unstructured.Unstructured{}
	raw.SetGroupVersionKind(kind)
	raw.SetNamespace(key.Namespace)
	raw.SetName(key.Name)
	raw.SetLabels(map[string]string{"is": "applied"})
	if err := s.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(raw), client.FieldOwner("test"), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	see("an apply", "applied")
	if err := s.Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := s.Get(t.Context(), key, c); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("after its deletion: %v", err)
	}
}

// TestWhatIsSharedMustNotBeChanged checks that a change of a shared answer is
// found: at the next write, or at the end.
func TestWhatIsSharedMustNotBeChanged(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]bool{"at the end": false, "at a write": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := newStore(Options{Clock: NewClock(time.Now())})
			if err != nil {
				t.Fatal(err)
			}
			c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo", Labels: map[string]string{"is": "new"}}}
			if err := s.Create(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			own, shared := &clusterv1.Cluster{}, &clusterv1.Cluster{}
			if err := errors.Join(s.Get(t.Context(), client.ObjectKeyFromObject(c), own), s.Get(t.Context(), client.ObjectKeyFromObject(c), shared, client.UnsafeDisableDeepCopy)); err != nil {
				t.Fatal(err)
			}
			shared.Name = "a field of the struct is the reader's own"
			own.Labels["is"] = "changed"
			if found := s.read.spoiled(); len(found) != 0 {
				t.Errorf("found %v, where only copies were changed", found)
			}
			shared.Labels["is"] = "changed"
			if write {
				if err := s.Delete(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
			if found := s.read.spoiled(); len(found) != 1 {
				t.Errorf("found %v, want one", found)
			}
		})
	}
}
