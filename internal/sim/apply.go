// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// schemaTypes knows how the kinds that are installed are merged: as their
// definitions say, so that managedFields name items of lists by their keys.
var schemaTypes = sync.OnceValues(func() (managedfields.TypeConverter, error) {
	crds, err := definitions()
	if err != nil {
		return nil, err
	}
	models, known := map[string]*spec.Schema{}, map[schema.GroupVersionKind]bool{}
	for _, crd := range crds {
		for _, v := range crd.Spec.Versions {
			if !v.Storage {
				continue
			}
			known[schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind}] = true
			published, err := builder.BuildOpenAPIV3(crd, v.Name, builder.Options{})
			if err != nil {
				return nil, err
			}
			for name, model := range published.Components.Schemas {
				models[name] = model
			}
		}
	}
	of, err := managedfields.NewTypeConverter(models, false)
	return converter{of, managedfields.NewDeducedTypeConverter(), known}, err
})

// converter goes by the definition of a kind, and guesses if it has none.
type converter struct {
	managedfields.TypeConverter
	others managedfields.TypeConverter
	known  map[schema.GroupVersionKind]bool
}

// ObjectToTyped implements managedfields.TypeConverter.
func (c converter) ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	if c.known[obj.GetObjectKind().GroupVersionKind()] {
		return c.TypeConverter.ObjectToTyped(obj, opts...)
	}
	return c.others.ObjectToTyped(obj, opts...)
}

// creations refuses applies that are to make an object which is there. A fake
// client does not: its versions begin with 1 as well.
func creations(funcs interceptor.Funcs) interceptor.Funcs {
	patch := funcs.Patch
	funcs.Patch = func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
		if p.Type() == types.ApplyPatchType && obj.GetResourceVersion() == "1" {
			live := obj.DeepCopyObject().(client.Object)
			switch err := c.Get(ctx, client.ObjectKeyFromObject(obj), live); {
			case err == nil:
				gvk := obj.GetObjectKind().GroupVersionKind()
				return apierrors.NewConflict(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, obj.GetName(), errors.New("it is there"))
			case !apierrors.IsNotFound(err):
				return err
			}
		}
		return patch(ctx, c, obj, p, opts...)
	}
	return funcs
}

// sameObject refuses a write that is meant for another object of that name.
func sameObject(gvr schema.GroupVersionResource, stored, next metav1.Object) error {
	if next.GetUID() == "" || next.GetUID() == stored.GetUID() {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: gvr.Group, Kind: gvr.Resource}, next.GetName(), field.ErrorList{
		field.Invalid(field.NewPath("metadata", "uid"), next.GetUID(), "field is immutable"),
	})
}
