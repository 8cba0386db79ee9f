// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/kit/index"
)

// cached reads for the webhooks, which answer before the cache runs, for objects of
// any namespace. An object that is not in the cache is read from the API server:
// the user may just have created it.
type cached struct {
	client.Reader // the cache
	live          client.Reader
	partly        bool // the cache is of one namespace
}

// Get implements client.Reader.
func (c cached) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if c.Reader.Get(ctx, key, obj, opts...) == nil {
		return nil
	}
	return c.live.Get(ctx, key, obj, opts...)
}

// List implements client.Reader. What a cache of one namespace lacks is listed past
// it, where there are no indexes.
func (c cached) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if !c.partly {
		return c.Reader.List(ctx, list, opts...)
	}
	var o client.ListOptions
	o.ApplyOptions(opts)
	by := o.FieldSelector
	o.FieldSelector, o.UnsafeDisableDeepCopy = nil, nil
	if err := c.live.List(ctx, list, &o); err != nil || by == nil {
		return err
	}
	all, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	return meta.SetList(list, slices.DeleteFunc(all, func(obj runtime.Object) bool {
		return slices.ContainsFunc(by.Requirements(), func(r fields.Requirement) bool {
			of := index.Of
			if r.Field == index.ClusterClass {
				of = index.OfClass
			}
			return !slices.Contains(of(obj.(client.Object)), r.Value)
		})
	}))
}

// withoutStatusFields removes from an object, before it is cached, the managed
// fields of its status: no controller reads them (kit/metadata reads those of
// labels and annotations). An object with a dozen conditions would be nearly half
// as large again, and an unstructured one, in which managed fields are a tree of
// maps, several times as expensive to copy.
func withoutStatusFields(obj any) (any, error) {
	switch o := obj.(type) {
	case *unstructured.Unstructured: // as it is: GetManagedFields would convert it
		entries, found, err := unstructured.NestedFieldNoCopy(o.Object, "metadata", "managedFields")
		if list, ok := entries.([]any); found && err == nil && ok {
			o.Object["metadata"].(map[string]any)["managedFields"] = slices.DeleteFunc(list, func(entry any) bool {
				e, ok := entry.(map[string]any)
				return ok && e["subresource"] != nil
			})
		}
	case metav1.Object:
		o.SetManagedFields(slices.DeleteFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Subresource != "" }))
	}
	return obj, nil
}
