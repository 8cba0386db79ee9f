// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/capstan-dev/capstan/clusterctl/move"
	"github.com/capstan-dev/capstan/clusterctl/move/plan"
)

// wire is what a client has between itself and all management clusters. It sends one
// request at a time, because memory does not expect concurrent ones.
type wire struct {
	sync.Mutex
	writes int    // that were done so far
	last   string // the kind of the last, as in "patch metadata.finalizers of Machine at source"
	// breaks reports whether the answer to a write gets lost, after which nothing
	// works any longer, or, with once, the next request.
	breaks func(write int) bool
	once   bool
	broken bool
	// after is called when a write is done.
	after func()
}

var errReset = &url.Error{Op: "Patch", URL: "https://plane", Err: errors.New("connection reset by peer")}

// send sends a write.
func (w *wire) send(kind string, do func() error) error {
	w.Lock()
	defer w.Unlock()
	if w.broken {
		return errReset
	}
	if err := do(); err != nil {
		return err
	}
	w.writes++
	w.last = kind
	if w.after != nil {
		w.after()
	}
	if w.breaks != nil && w.breaks(w.writes) {
		w.broken = !w.once
		return errReset
	}
	return nil
}

// cutPlane is a management cluster at the end of a wire.
type cutPlane struct {
	move.Plane
	*wire
}

func (c cutPlane) List(ctx context.Context, kind plan.Kind, namespace string, labels ...string) ([]*unstructured.Unstructured, error) {
	c.Lock()
	defer c.Unlock()
	if c.broken {
		return nil, errReset
	}
	return c.Plane.List(ctx, kind, namespace, labels...)
}

func (c cutPlane) Get(ctx context.Context, kind plan.Kind, key types.NamespacedName) (*unstructured.Unstructured, error) {
	c.Lock()
	defer c.Unlock()
	if c.broken {
		return nil, errReset
	}
	return c.Plane.Get(ctx, kind, key)
}

func (c cutPlane) Create(ctx context.Context, obj *unstructured.Unstructured) error {
	return c.arrives("create", obj, func(obj *unstructured.Unstructured) error { return c.Plane.Create(ctx, obj) })
}

func (c cutPlane) Update(ctx context.Context, obj *unstructured.Unstructured) error {
	return c.arrives("update", obj, func(obj *unstructured.Unstructured) error { return c.Plane.Update(ctx, obj) })
}

func (c cutPlane) Patch(ctx context.Context, obj *unstructured.Unstructured, patch map[string]any) error {
	verb := "patch " + strings.Join(fieldsOf(patch), " ")
	return c.arrives(verb, obj, func(obj *unstructured.Unstructured) error { return c.Plane.Patch(ctx, obj, patch) })
}

func (c cutPlane) Delete(ctx context.Context, obj *unstructured.Unstructured) error {
	return c.arrives("delete", obj, func(obj *unstructured.Unstructured) error { return c.Plane.Delete(ctx, obj) })
}

// fieldsOf returns the fields that a patch changes, two levels deep.
func fieldsOf(patch map[string]any) (all []string) {
	for name, value := range patch {
		below, is := value.(map[string]any)
		if !is {
			all = append(all, name)
		}
		for field := range below {
			all = append(all, name+"."+field)
		}
	}
	slices.Sort(all)
	return all
}

// arrives leaves obj as it is if the answer is lost.
func (c cutPlane) arrives(verb string, obj *unstructured.Unstructured, do func(*unstructured.Unstructured) error) error {
	answer := obj.DeepCopy()
	if err := c.send(fmt.Sprintf("%s of %s at %s", verb, obj.GetKind(), c.Plane), func() error { return do(answer) }); err != nil {
		return err
	}
	obj.Object = answer.Object
	return nil
}

func (cutPlane) Allowed(context.Context, string, schema.GroupResource, string) (bool, error) {
	return true, nil
}

// memory is a management cluster as far as a move needs it, without controllers: it
// needs microseconds for a write, and a fork of it copies no object.
type memory struct {
	name    string
	objects map[string]*unstructured.Unstructured
	version int
	made    int
}

func newMemory(name string, objects ...*unstructured.Unstructured) *memory {
	m := &memory{name: name, objects: map[string]*unstructured.Unstructured{}}
	system := &unstructured.Unstructured{}
	system.SetAPIVersion("v1")
	system.SetKind("Namespace")
	system.SetName("kube-system")
	system.SetUID(types.UID("plane " + name))
	for _, obj := range append(objects, system) {
		m.put(obj.DeepCopy())
	}
	return m
}

func (m *memory) String() string { return m.name }

// fork is a management cluster that continues from here. What is stored never
// changes.
func (m *memory) fork() *memory {
	f := *m
	f.objects = maps.Clone(m.objects)
	return &f
}

func keyOf(kind, namespace, name string) string { return kind + " " + namespace + "/" + name }

func (m *memory) put(obj *unstructured.Unstructured) {
	m.version++
	obj.SetResourceVersion(fmt.Sprint(m.version))
	m.objects[keyOf(obj.GetKind(), obj.GetNamespace(), obj.GetName())] = obj
}

func resourceOf(obj *unstructured.Unstructured) schema.GroupResource {
	return schema.GroupResource{Group: obj.GroupVersionKind().Group, Resource: obj.GetKind()}
}

func (m *memory) live(obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	live := m.objects[keyOf(obj.GetKind(), obj.GetNamespace(), obj.GetName())]
	if live == nil {
		return nil, apierrors.NewNotFound(resourceOf(obj), obj.GetName())
	}
	if uid, version := obj.GetUID(), obj.GetResourceVersion(); uid != "" && uid != live.GetUID() || version != "" && version != live.GetResourceVersion() {
		return nil, apierrors.NewConflict(resourceOf(obj), obj.GetName(), errors.New("it has changed"))
	}
	return live, nil
}

func (m *memory) List(_ context.Context, kind plan.Kind, namespace string, labels ...string) (all []*unstructured.Unstructured, err error) {
	for _, key := range slices.Sorted(maps.Keys(m.objects)) {
		obj := m.objects[key]
		if obj.GroupVersionKind().GroupKind() != kind.GroupKind() || namespace != "" && obj.GetNamespace() != namespace {
			continue
		}
		if !slices.ContainsFunc(labels, func(l string) bool { _, is := obj.GetLabels()[l]; return !is }) {
			all = append(all, obj.DeepCopy())
		}
	}
	return all, nil
}

func (m *memory) Get(_ context.Context, kind plan.Kind, key types.NamespacedName) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(kind.GroupVersionKind)
	obj.SetNamespace(key.Namespace)
	obj.SetName(key.Name)
	live, err := m.live(obj)
	if err != nil {
		return nil, err
	}
	return live.DeepCopy(), nil
}

func (m *memory) Create(_ context.Context, obj *unstructured.Unstructured) error {
	if m.objects[keyOf(obj.GetKind(), obj.GetNamespace(), obj.GetName())] != nil {
		return apierrors.NewAlreadyExists(resourceOf(obj), obj.GetName())
	}
	for _, ref := range obj.GetOwnerReferences() {
		if !slices.ContainsFunc(slices.Collect(maps.Values(m.objects)), func(o *unstructured.Unstructured) bool { return o.GetUID() == ref.UID }) {
			return fmt.Errorf("%s %s would be collected as garbage: there is no %s %s with UID %s", obj.GetKind(), obj.GetName(), ref.Kind, ref.Name, ref.UID)
		}
	}
	m.made++
	obj.SetUID(types.UID(fmt.Sprintf("%s-%d", m.name, m.made)))
	m.put(obj.DeepCopy())
	obj.SetResourceVersion(fmt.Sprint(m.version))
	return nil
}

func (m *memory) Update(_ context.Context, obj *unstructured.Unstructured) error {
	if _, err := m.live(obj); err != nil {
		return err
	}
	m.put(obj.DeepCopy())
	obj.SetResourceVersion(fmt.Sprint(m.version))
	return nil
}

func (m *memory) Patch(_ context.Context, obj *unstructured.Unstructured, patch map[string]any) error {
	asked := obj.DeepCopy()
	text, err := utiljson.Marshal(patch)
	if err != nil {
		return err
	}
	version, _, _ := unstructured.NestedString(patch, "metadata", "resourceVersion")
	asked.SetResourceVersion(version)
	live, err := m.live(asked)
	if err != nil {
		return err
	}
	change := map[string]any{}
	if err := utiljson.Unmarshal(text, &change); err != nil {
		return err
	}
	next := live.DeepCopy()
	merge(next.Object, change)
	m.put(next)
	if next.GetDeletionTimestamp() != nil && len(next.GetFinalizers()) == 0 {
		m.drop(next)
	}
	obj.Object = next.DeepCopy().Object
	return nil
}

// merge is a merge patch.
func merge(into, patch map[string]any) {
	for field, value := range patch {
		inner, is := value.(map[string]any)
		below, has := into[field].(map[string]any)
		switch {
		case value == nil:
			delete(into, field)
		case is && has:
			merge(below, inner)
		default:
			into[field] = value
		}
	}
}

func (m *memory) Delete(_ context.Context, obj *unstructured.Unstructured) error {
	live, err := m.live(obj)
	if err != nil {
		return err
	}
	if len(live.GetFinalizers()) == 0 {
		m.drop(live)
		return nil
	}
	next := live.DeepCopy()
	if err := unstructured.SetNestedField(next.Object, "2026-08-01T12:00:00Z", "metadata", "deletionTimestamp"); err != nil {
		return err
	}
	m.put(next)
	return nil
}

// drop removes an object. What it owns would be garbage-collected, which deletes
// machines too: nothing of that may be left.
func (m *memory) drop(obj *unstructured.Unstructured) {
	delete(m.objects, keyOf(obj.GetKind(), obj.GetNamespace(), obj.GetName()))
	for _, other := range m.objects {
		for _, ref := range other.GetOwnerReferences() {
			if ref.UID == obj.GetUID() {
				panic(fmt.Sprintf("%s is deleted before %s, which it owns", plan.Name(obj), plan.Name(other)))
			}
		}
	}
}

func (m *memory) Allowed(context.Context, string, schema.GroupResource, string) (bool, error) {
	return true, nil
}
