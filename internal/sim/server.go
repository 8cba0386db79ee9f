// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// apiServer is the in-memory API server of a world: what client.WithWatch of a real
// one does, without watches. A stored record never changes; a write
// replaces it. Reads and patches therefore need no JSON text and no copy that the
// client does not request.
type apiServer struct {
	scheme   *runtime.Scheme
	mapper   meta.RESTMapper
	status   map[schema.GroupVersionKind]bool // kinds with a status subresource
	indexes  map[schema.GroupVersionKind]map[string]client.IndexerFunc
	begin    func(metav1.Object)               // sets what a server sets in a new object
	now      func() metav1.Time                // for deletion timestamps
	wrote    func(schema.GroupVersionResource) // is called after each write, also of one that the server rejects
	plain    bool                              // objects have no managedFields
	reads    *Reads                            // of what is read; nil collects none
	admit    Admit                             // nil admits everything as it is
	refusals int                               // writes by admit

	types         managedfields.TypeConverter // of kinds of other providers; nil without any
	fieldManagers sync.Map                    // of those kinds

	mu    sync.RWMutex // guards kinds
	kinds map[schema.GroupVersionKind]*table
}

// table has the records of a kind. Its version counts the writes.
type table struct {
	resource schema.GroupVersionResource
	records  map[client.ObjectKey]*record
	version  int
}

// record is one stored object: a Go type of the scheme without its kind, or
// unstructured for a kind that the scheme does not have.
type record struct {
	client.Object
	bare   func() map[string]any // the same as JSON fields, with the kind, but without managedFields
	fields func() map[string]any // with them
}

// newRecord returns the record of an object, whose JSON fields need not have
// managedFields.
func newRecord(obj client.Object, bare func() map[string]any) *record {
	r := &record{Object: obj, bare: sync.OnceValue(bare)}
	r.fields = sync.OnceValue(func() map[string]any { return withManagedFields(r.bare(), obj.GetManagedFields()) })
	return r
}

// withManagedFields adds managedFields to a copy of JSON fields.
func withManagedFields(bare map[string]any, entries []metav1.ManagedFieldsEntry) map[string]any {
	if len(entries) == 0 {
		return bare
	}
	u := copied(bare)
	u.SetManagedFields(entries)
	return u.Object
}

// copied returns JSON fields as an object whose own fields and metadata can be set.
func copied(of map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: maps.Clone(of)}
	if metadata, has := of["metadata"].(map[string]any); has {
		u.Object["metadata"] = maps.Clone(metadata)
	}
	return u
}

// encoded returns a function that returns the JSON fields of a stored object
// without managedFields.
func encoded(gvk schema.GroupVersionKind, obj client.Object) func() map[string]any {
	return func() map[string]any {
		of, err := encode(obj)
		if err != nil {
			panic(fmt.Sprintf("convert %T %s: %v", obj, obj.GetName(), err))
		}
		u := copied(of)
		u.SetGroupVersionKind(gvk)
		unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
		return u.Object
	}
}

// metadata returns the metadata of the object, which must not be changed.
func (r *record) metadata() *metav1.ObjectMeta {
	if typed, is := r.Object.(metav1.ObjectMetaAccessor); is {
		return typed.GetObjectMeta().(*metav1.ObjectMeta)
	}
	partial := &metav1.PartialObjectMetadata{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"metadata": r.fields()["metadata"]}, partial); err != nil {
		panic(fmt.Sprintf("convert the metadata of %s: %v", r.GetName(), err))
	}
	return &partial.ObjectMeta
}

// fill writes the stored object into obj. If shared, obj has parts of the record,
// which the caller must not change.
func (r *record) fill(gvk schema.GroupVersionKind, obj client.Object, shared bool) error {
	switch into := obj.(type) {
	case *unstructured.Unstructured:
		if into.Object = r.fields(); !shared {
			into.Object = runtime.DeepCopyJSON(into.Object)
		}
	case *metav1.PartialObjectMetadata:
		*into = metav1.PartialObjectMetadata{}
		into.SetGroupVersionKind(gvk)
		if into.ObjectMeta = *r.metadata(); !shared {
			into.ObjectMeta = *into.ObjectMeta.DeepCopy()
		}
	default:
		from, to := reflect.ValueOf(r.Object), reflect.ValueOf(obj)
		if from.Type() != to.Type() {
			return fmt.Errorf("%s is stored as %T, not as %T", gvk.Kind, r.Object, obj)
		}
		if !shared {
			from = reflect.ValueOf(r.DeepCopyObject())
		}
		to.Elem().Set(from.Elem())
	}
	return nil
}

// encode returns the JSON fields of an object of a client.
func encode(obj client.Object) (map[string]any, error) {
	if u, is := obj.(*unstructured.Unstructured); is {
		return u.Object, nil
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
}

// decode returns the object that is stored for JSON fields.
func (s *apiServer) decode(gvk schema.GroupVersionKind, of map[string]any) (client.Object, error) {
	if !s.scheme.Recognizes(gvk) {
		u := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(of)}
		u.SetGroupVersionKind(gvk)
		return u, nil
	}
	obj, err := s.scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(of, obj); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("decode %s: %v", gvk.Kind, err))
	}
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return obj.(client.Object), nil
}

// table returns the table of a kind. Creating one needs the lock for writing.
func (s *apiServer) table(gvk schema.GroupVersionKind) *table {
	if t := s.kinds[gvk]; t != nil {
		return t
	}
	resource, _ := meta.UnsafeGuessKindToResource(gvk)
	return &table{resource: resource, records: map[client.ObjectKey]*record{}, version: 1}
}

// put stores a record. It needs the lock.
func (s *apiServer) put(gvk schema.GroupVersionKind, r *record) {
	t := s.table(gvk)
	t.version++
	t.records[client.ObjectKeyFromObject(r)] = r
	s.kinds[gvk] = t
}

// remove deletes a record. It needs the lock.
func (s *apiServer) remove(gvk schema.GroupVersionKind, key client.ObjectKey) {
	t := s.table(gvk)
	t.version++
	delete(t.records, key)
}

// add stores an object that another server had.
func (s *apiServer) add(obj client.Object) error {
	gvk, err := s.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	if _, is := obj.(*unstructured.Unstructured); !is {
		obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	if obj.GetResourceVersion() == "" {
		obj.SetResourceVersion("999")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(gvk, newRecord(obj, encoded(gvk, obj)))
	return nil
}

// replace stores an object that another server has in place of its predecessor.
func (s *apiServer) replace(obj client.Object) error {
	gvk, err := s.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	next := obj.DeepCopyObject().(client.Object)
	next.SetResourceVersion(firstVersion)
	s.mu.Lock()
	t := s.table(gvk)
	if old := t.records[client.ObjectKeyFromObject(obj)]; old != nil {
		version, err := strconv.ParseUint(old.GetResourceVersion(), 10, 64)
		if err != nil {
			s.mu.Unlock()
			return fmt.Errorf("read the resourceVersion of %s %s: %w", gvk.Kind, old.GetName(), err)
		}
		next.SetResourceVersion(strconv.FormatUint(version+1, 10))
	}
	s.mu.Unlock()
	defer s.wrote(t.resource)
	return s.add(next)
}

// sorted returns the records of a namespace, or of all, by namespace and name.
func (s *apiServer) sorted(gvk schema.GroupVersionKind, namespace string) []*record {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]*record, 0, len(s.table(gvk).records))
	for key, r := range s.table(gvk).records {
		if namespace == "" || namespace == key.Namespace {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *record) int {
		if c := strings.Compare(a.GetNamespace(), b.GetNamespace()); c != 0 {
			return c
		}
		return strings.Compare(a.GetName(), b.GetName())
	})
	return all
}

// Get implements client.Reader.
func (s *apiServer) Get(_ context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	gvk, err := s.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	s.noteGet(gvk, key)
	s.mu.RLock()
	t := s.table(gvk)
	r := t.records[key]
	s.mu.RUnlock()
	if r == nil {
		return apierrors.NewNotFound(t.resource.GroupResource(), key.Name)
	}
	return r.fill(gvk, obj, ptr.Deref((&client.GetOptions{}).ApplyOptions(opts).UnsafeDisableDeepCopy, false))
}

// List implements client.Reader.
func (s *apiServer) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	gvk, err := s.GroupVersionKindFor(list)
	if err != nil {
		return err
	}
	of := gvk.GroupVersion().WithKind(strings.TrimSuffix(gvk.Kind, "List"))
	o := (&client.ListOptions{}).ApplyOptions(opts)
	s.noteList(of, o)
	items := []runtime.Object{}
	for _, r := range s.sorted(of, o.Namespace) {
		if selected, err := s.selected(of, r, o); err != nil {
			return err
		} else if !selected {
			continue
		}
		item, err := s.item(of, list)
		if err != nil {
			return err
		}
		if err := r.fill(of, item, ptr.Deref(o.UnsafeDisableDeepCopy, false)); err != nil {
			return err
		}
		items = append(items, item)
	}
	reflect.ValueOf(list).Elem().SetZero()
	switch list.(type) {
	case *unstructured.UnstructuredList, *metav1.PartialObjectMetadataList:
		list.GetObjectKind().SetGroupVersionKind(gvk)
	}
	s.mu.RLock()
	list.SetResourceVersion(fmt.Sprint(s.table(of).version))
	s.mu.RUnlock()
	return meta.SetList(list, items)
}

// item returns an empty item of a list.
func (s *apiServer) item(gvk schema.GroupVersionKind, list client.ObjectList) (client.Object, error) {
	switch list.(type) {
	case *unstructured.UnstructuredList:
		return &unstructured.Unstructured{}, nil
	case *metav1.PartialObjectMetadataList:
		return &metav1.PartialObjectMetadata{}, nil
	}
	obj, err := s.scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	return obj.(client.Object), nil
}

func (s *apiServer) selected(gvk schema.GroupVersionKind, r *record, o *client.ListOptions) (bool, error) {
	if o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(r.GetLabels())) {
		return false, nil
	}
	if o.FieldSelector == nil {
		return true, nil
	}
	for _, of := range o.FieldSelector.Requirements() {
		index := s.indexes[gvk][of.Field]
		if index == nil {
			return false, fmt.Errorf("list %s by field %s: there is no such index", gvk.Kind, of.Field)
		}
		if !slices.Contains(index(r.Object), of.Value) {
			return false, nil
		}
	}
	return true, nil
}

// Watch implements client.WithWatch.
func (*apiServer) Watch(context.Context, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
	return nil, errors.New("watch: not supported in a simulation")
}

// Scheme implements client.Client.
func (s *apiServer) Scheme() *runtime.Scheme { return s.scheme }

// RESTMapper implements client.Client.
func (s *apiServer) RESTMapper() meta.RESTMapper { return s.mapper }

// GroupVersionKindFor implements client.Client.
func (s *apiServer) GroupVersionKindFor(obj runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(obj, s.scheme)
}

// IsObjectNamespaced implements client.Client.
func (s *apiServer) IsObjectNamespaced(obj runtime.Object) (bool, error) {
	return apiutil.IsObjectNamespaced(obj, s.scheme, s.mapper)
}
