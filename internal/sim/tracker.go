// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/testing"
)

// tracker counts writes, and does what an API server does beyond a fake one: it
// counts generations, dates deletions by the clock of the world, and gives what an
// apply has made all that a new object has.
type tracker struct {
	testing.ObjectTracker
	store *store
}

// wrote notes a write of a kind.
func (t tracker) wrote(gvr schema.GroupVersionResource) {
	t.store.writes++
	t.store.read.forget(gvr)
}

// Create implements testing.ObjectTracker.
func (t tracker) Create(gvr schema.GroupVersionResource, obj runtime.Object, ns string, opts ...metav1.CreateOptions) error {
	defer t.wrote(gvr)
	return t.ObjectTracker.Create(gvr, obj, ns, opts...)
}

// Update implements testing.ObjectTracker.
func (t tracker) Update(gvr schema.GroupVersionResource, obj runtime.Object, ns string, opts ...metav1.UpdateOptions) error {
	defer t.wrote(gvr)
	if err := t.amend(gvr, obj, ns); err != nil {
		return err
	}
	return t.ObjectTracker.Update(gvr, obj, ns, opts...)
}

// Patch implements testing.ObjectTracker.
func (t tracker) Patch(gvr schema.GroupVersionResource, obj runtime.Object, ns string, opts ...metav1.PatchOptions) error {
	defer t.wrote(gvr)
	if err := t.amend(gvr, obj, ns); err != nil {
		return err
	}
	return t.ObjectTracker.Patch(gvr, obj, ns, opts...)
}

// Delete implements testing.ObjectTracker.
func (t tracker) Delete(gvr schema.GroupVersionResource, ns, name string, opts ...metav1.DeleteOptions) error {
	defer t.wrote(gvr)
	return t.ObjectTracker.Delete(gvr, ns, name, opts...)
}

// Apply implements testing.ObjectTracker.
func (t tracker) Apply(gvr schema.GroupVersionResource, obj runtime.Object, ns string, opts ...metav1.PatchOptions) error {
	defer t.wrote(gvr)
	asked, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	before, err := t.Get(gvr, ns, asked.GetName())
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if before != nil {
		if err := sameObject(gvr, before.(metav1.Object), asked); err != nil {
			return err
		}
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return err
	}
	// The fake client has put there what is stored, which an apply would make its
	// manager own. Nobody applies a status.
	delete(fields, "status")
	if err := t.ObjectTracker.Apply(gvr, &unstructured.Unstructured{Object: fields}, ns, opts...); err != nil {
		return err
	}
	applied, err := t.Get(gvr, ns, asked.GetName())
	if err != nil {
		return err
	}
	if before != nil {
		err = t.count(before, applied)
	} else if made, is := applied.(metav1.Object); is {
		t.store.begin(made)
		made.SetResourceVersion("1")
	}
	if err != nil {
		return err
	}
	// In this way the field manager takes no notice.
	if err := t.ObjectTracker.Delete(gvr, ns, asked.GetName()); err != nil {
		return err
	}
	return t.Add(applied)
}

func (t tracker) amend(gvr schema.GroupVersionResource, obj runtime.Object, ns string) error {
	next, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	stored, err := t.Get(gvr, ns, next.GetName())
	if err != nil {
		return err
	}
	before, err := meta.Accessor(stored)
	if err != nil {
		return err
	}
	if err := sameObject(gvr, before, next); err != nil {
		return err
	}
	if before.GetDeletionTimestamp().IsZero() && !next.GetDeletionTimestamp().IsZero() {
		next.SetDeletionTimestamp(new(metav1.NewTime(t.store.clock.Now().Truncate(time.Second))))
	}
	return t.count(stored, obj)
}

// count gives an object its generation.
func (tracker) count(before, after runtime.Object) error {
	was, err := wanted(before)
	if err != nil {
		return err
	}
	is, err := wanted(after)
	if err != nil {
		return err
	}
	generation := before.(metav1.Object).GetGeneration()
	if !equality.Semantic.DeepEqual(was, is) {
		generation++
	}
	after.(metav1.Object).SetGeneration(generation)
	return nil
}

// wanted is the part of an object that makes its generations.
func wanted(obj runtime.Object) (map[string]any, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	fields = maps.Clone(fields) // of what is unstructured already they are its own
	maps.DeleteFunc(fields, func(field string, _ any) bool {
		return slices.Contains([]string{"kind", "apiVersion", "metadata", "status"}, field)
	})
	return fields, err
}
