// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// schemaTypes merges the installed kinds as their definitions declare, so that
// managedFields name items of lists by their keys.
var schemaTypes = sync.OnceValues(func() (managedfields.TypeConverter, error) {
	crds, err := definitions()
	if err != nil {
		return nil, err
	}
	return typesOf(crds)
})

// typesWith returns the types of kinds of other providers; nil if there are none.
func typesWith(foreign []*apiextensionsv1.CustomResourceDefinition) (managedfields.TypeConverter, error) {
	if len(foreign) == 0 {
		return nil, nil
	}
	return typesOf(foreign)
}

func typesOf(crds []*apiextensionsv1.CustomResourceDefinition) (managedfields.TypeConverter, error) {
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
}

// converter uses the definition of a kind, and guesses if it has none.
type converter struct {
	managedfields.TypeConverter
	others managedfields.TypeConverter
	known  map[schema.GroupVersionKind]bool
}

// ObjectToTyped implements managedfields.TypeConverter.
func (c converter) ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	if o, is := obj.(*owned); is {
		obj = o.Unstructured
	}
	if c.known[obj.GetObjectKind().GroupVersionKind()] {
		return c.TypeConverter.ObjectToTyped(obj, opts...)
	}
	return c.others.ObjectToTyped(obj, opts...)
}

// stored is the kind of all objects that a field manager gets: the stored version,
// unstructured. Other versions go through the scheme.
type stored struct{ *runtime.Scheme }

// ConvertToVersion implements runtime.ObjectConvertor.
func (c stored) ConvertToVersion(obj runtime.Object, to runtime.GroupVersioner) (runtime.Object, error) {
	if gv, is := to.(schema.GroupVersion); is && gv == obj.GetObjectKind().GroupVersionKind().GroupVersion() {
		return obj, nil
	}
	return c.Scheme.ConvertToVersion(obj, to)
}

// New implements runtime.ObjectCreater.
func (stored) New(gvk schema.GroupVersionKind) (runtime.Object, error) { return empty(gvk), nil }

// Default implements runtime.ObjectDefaulter.
func (stored) Default(runtime.Object) {}

// fieldManagers has the field manager of each installed kind, for all worlds.
var fieldManagers sync.Map // of *managedfields.FieldManager by schema.GroupVersionKind

func (s *apiServer) fieldManager(gvk schema.GroupVersionKind) (*managedfields.FieldManager, error) {
	all := &fieldManagers
	if c, is := s.types.(converter); is && c.known[gvk] {
		all = &s.fieldManagers
	}
	if m, has := all.Load(gvk); has {
		return m.(*managedfields.FieldManager), nil
	}
	of, err := schemaTypes()
	if err != nil {
		return nil, err
	}
	if all != &fieldManagers {
		of = s.types
	}
	c := stored{s.scheme}
	m, err := managedfields.NewDefaultFieldManager(of, c, c, c, gvk, gvk.GroupVersion(), "", nil)
	if err == nil {
		all.Store(gvk, m)
	}
	return m, err
}

// owned is an object for a field manager. It has its managedFields next to its JSON
// fields, because converting them takes longer than all else.
type owned struct {
	*unstructured.Unstructured
	entries []metav1.ManagedFieldsEntry
}

// GetManagedFields implements metav1.Object.
func (o *owned) GetManagedFields() []metav1.ManagedFieldsEntry { return o.entries }

// SetManagedFields implements metav1.Object.
func (o *owned) SetManagedFields(entries []metav1.ManagedFieldsEntry) { o.entries = entries }

// empty returns an object of a kind without any field.
func empty(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(gvk)
	return u
}

// managed returns the record of an object that manager has written, with its
// managedFields; old is nil if it is new.
func (s *apiServer) managed(gvk schema.GroupVersionKind, old *record, next client.Object, manager string) (*record, error) {
	if s.plain {
		next.SetManagedFields(nil)
		return newRecord(next, encoded(gvk, next)), nil
	}
	m, err := s.fieldManager(gvk)
	if err != nil {
		return nil, err
	}
	live := &owned{Unstructured: empty(gvk)}
	if old != nil {
		live = &owned{copied(old.bare()), old.GetManagedFields()}
	}
	entries := next.GetManagedFields()
	next.SetManagedFields(nil)
	r := newRecord(next, encoded(gvk, next))
	written := &owned{&unstructured.Unstructured{Object: r.bare()}, entries}
	if _, err := m.Update(live, written, manager); err != nil {
		return nil, err
	}
	next.SetManagedFields(written.entries)
	return r, nil
}

// apply is a server-side apply. It never changes a status, and a version that it
// requires is that of the stored object; an object that is created has none.
func (s *apiServer) apply(obj client.Object, data []byte, manager string, force bool) (err error) {
	gvk, err := s.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	config := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(data, &config.Object); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	key := client.ObjectKeyFromObject(obj)
	config.SetName(key.Name)
	config.SetNamespace(key.Namespace)
	delete(config.Object, "status")
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.table(gvk)
	old := t.records[key]
	live := empty(gvk)
	switch version := config.GetResourceVersion(); {
	case old == nil && config.GetUID() != "":
		return apierrors.NewConflict(t.resource.GroupResource(), key.Name, fmt.Errorf("uid %s is required, and the object does not exist", config.GetUID()))
	case old != nil && version != "" && version != old.GetResourceVersion():
		return apierrors.NewConflict(t.resource.GroupResource(), key.Name, errors.New("object was modified"))
	case old != nil:
		live = copied(old.fields())
	}
	defer func() { s.ended(t.resource, err) }()
	if old != nil {
		if err := sameObject(t.resource, old, config); err != nil {
			return err
		}
	}
	config.SetResourceVersion("")
	r, err := s.applied(gvk, old, live, config, manager, force)
	if err != nil {
		return err
	}
	return r.fill(gvk, obj, false)
}

// applied stores the result of an apply. It needs the lock.
func (s *apiServer) applied(gvk schema.GroupVersionKind, old *record, live, config *unstructured.Unstructured, manager string, force bool) (*record, error) {
	m, err := s.fieldManager(gvk)
	if err != nil {
		return nil, err
	}
	out, err := m.Apply(live, config, manager, force)
	if err != nil {
		return nil, err
	}
	next, err := s.decode(gvk, out.(*unstructured.Unstructured).Object)
	if err != nil {
		return nil, err
	}
	r := newRecord(next, encoded(gvk, next))
	switch {
	case old == nil:
		s.begin(next)
		next.SetResourceVersion(firstVersion)
	case !next.GetDeletionTimestamp().IsZero() && len(next.GetFinalizers()) == 0:
		s.remove(gvk, client.ObjectKeyFromObject(old))
		return r, nil
	default:
		if err := s.replaces(gvk, old, next); err != nil {
			return nil, err
		}
	}
	if r, err = s.admitted(gvk, old, r); err != nil {
		return nil, err
	}
	if old != nil {
		s.counted(old, r)
	}
	s.put(gvk, r)
	return r, nil
}

// Apply implements client.Writer.
func (s *apiServer) Apply(_ context.Context, config runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	o := (&client.ApplyOptions{}).ApplyOptions(opts)
	data, err := json.Marshal(config)
	if err != nil {
		return err
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(data); err != nil {
		return err
	}
	if len(o.DryRun) == 0 {
		err = s.apply(obj, data, o.FieldManager, ptr.Deref(o.Force, false))
	}
	if err != nil {
		return err
	}
	if data, err = obj.MarshalJSON(); err != nil {
		return err
	}
	return json.Unmarshal(data, config)
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
