// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/clusterctl/move/plan"
)

// side is a management cluster, as far as a move needs one. The fake client of
// controller-runtime needs half a millisecond for a request, which is too much for tests
// that have each request of a move fail in turn.
type side struct {
	Plane
	*sides
	name    string
	objects map[string]*unstructured.Unstructured // by kind and name; stored objects do not change
	version int
}

// fork is a management cluster that continues from here.
func (e *side) fork(s *sides) *side {
	f := &side{sides: s, name: e.name, objects: maps.Clone(e.objects), version: e.version}
	f.Plane = NewPlane(request{side: f}, e.name)
	return f
}

func (e *side) put(obj *unstructured.Unstructured) {
	e.version++
	obj.SetResourceVersion(fmt.Sprint(e.version))
	e.objects[plan.Name(obj)] = obj
}

// change changes an object of a side, as any client of it can.
func (e *side) change(name string, how func(*unstructured.Unstructured)) {
	e.t.Helper()
	if e.objects[name] == nil {
		e.t.Fatalf("%s has no %s", e.name, name)
	}
	obj := e.objects[name].DeepCopy()
	how(obj)
	e.put(obj)
}

// add creates objects at a side, as any client of it can.
func (e *side) add(docs string) {
	e.t.Helper()
	for _, obj := range parse(e.t, docs) {
		e.put(obj)
	}
}

// drop deletes an object of a side, as any client of it can.
func (e *side) drop(name string) {
	e.t.Helper()
	if e.objects[name] == nil {
		e.t.Fatalf("%s has no %s", e.name, name)
	}
	delete(e.objects, name)
	e.deleted = name
}

// request is the client of a side.
type request struct {
	client.Client // nil: a move sends no other requests
	*side
}

func (r request) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	obj.SetNamespace(key.Namespace)
	obj.SetName(key.Name)
	return r.send("get "+plan.Name(obj.(*unstructured.Unstructured))+" at "+r.name, func() error {
		live, err := r.live(obj, "", "")
		if err == nil {
			obj.(*unstructured.Unstructured).Object = live.DeepCopy().Object
		}
		return err
	})
}

func (r request) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(opts)
	into := list.(*unstructured.UnstructuredList)
	return r.send("list "+into.GetKind()+" at "+r.name, func() error {
		into.Items = nil
		for _, name := range slices.Sorted(maps.Keys(r.objects)) {
			obj := r.objects[name]
			selected := o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(obj.GetLabels()))
			if obj.GetKind()+"List" == into.GetKind() && selected && (o.Namespace == "" || o.Namespace == obj.GetNamespace()) {
				into.Items = append(into.Items, *obj.DeepCopy())
			}
		}
		return nil
	})
}

func (r request) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	if obj.GetObjectKind().GroupVersionKind() == reviews.GroupVersionKind {
		return r.send("ask "+r.name, func() error {
			return unstructured.SetNestedField(obj.(*unstructured.Unstructured).Object, true, "status", "allowed")
		})
	}
	return r.write("create", obj, func(obj *unstructured.Unstructured) error {
		if r.objects[plan.Name(obj)] != nil {
			return apierrors.NewAlreadyExists(schema.GroupResource{}, plan.Name(obj))
		}
		obj.SetUID(types.UID(fmt.Sprintf("%s-%d", r.name, r.version)))
		r.put(obj)
		return nil
	})
}

func (r request) Update(_ context.Context, obj client.Object, _ ...client.UpdateOption) error {
	return r.write("update", obj, func(obj *unstructured.Unstructured) error {
		if _, err := r.live(obj, obj.GetUID(), obj.GetResourceVersion()); err != nil {
			return err
		}
		r.put(obj)
		return nil
	})
}

func (r request) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	text, err := patch.Data(obj)
	if err != nil {
		return err
	}
	precondition := metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(text, &precondition); err != nil {
		return err
	}
	return r.write("patch", obj, func(obj *unstructured.Unstructured) error {
		live, err := r.live(obj, precondition.UID, precondition.ResourceVersion)
		if err != nil {
			return err
		}
		before, err := live.MarshalJSON()
		if err == nil {
			before, err = jsonpatch.MergePatch(before, text)
		}
		if err == nil {
			err = obj.UnmarshalJSON(before)
		}
		if err != nil {
			return err
		}
		obj.SetUID(live.GetUID())
		r.put(obj)
		if obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 {
			delete(r.objects, plan.Name(obj))
		}
		return nil
	})
}

func (r request) Delete(_ context.Context, obj client.Object, opts ...client.DeleteOption) error {
	o := (&client.DeleteOptions{}).ApplyOptions(opts)
	return r.write("delete", obj, func(obj *unstructured.Unstructured) error {
		live, err := r.live(obj, *o.Preconditions.UID, *o.Preconditions.ResourceVersion)
		if err != nil {
			return err
		}
		r.checkDeletion(live)
		if len(live.GetFinalizers()) == 0 {
			delete(r.objects, plan.Name(obj))
			return nil
		}
		live = live.DeepCopy()
		if err := unstructured.SetNestedField(live.Object, "2026-08-01T12:00:00Z", "metadata", "deletionTimestamp"); err != nil {
			return err
		}
		r.put(live)
		return nil
	})
}

// live reads an object for a request with preconditions.
func (e *side) live(obj client.Object, uid types.UID, version string) (*unstructured.Unstructured, error) {
	live := e.objects[plan.Name(obj.(*unstructured.Unstructured))]
	switch {
	case live == nil:
		return nil, apierrors.NewNotFound(schema.GroupResource{}, plan.Name(obj.(*unstructured.Unstructured)))
	case uid != "" && uid != live.GetUID(), version != "" && version != live.GetResourceVersion():
		return nil, apierrors.NewConflict(schema.GroupResource{}, plan.Name(obj.(*unstructured.Unstructured)), errors.New("it has changed"))
	}
	return live, nil
}

// send sends a request, if it arrives.
func (e *side) send(call string, do func() error) error {
	e.calls = append(e.calls, call)
	how := none
	if e.fails != nil && !e.dead {
		how = e.fails(len(e.calls), call)
	}
	e.dead = e.dead || how == died
	switch {
	case e.dead:
		return errDead
	case how == refused:
		return apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("refused by a test"))
	case how == busy:
		return apierrors.NewServiceUnavailable("busy by a test")
	}
	err := do()
	if how == lost && err == nil {
		err = &url.Error{Op: "Patch", URL: "https://plane", Err: errors.New("connection reset by peer")}
	}
	return err
}

// write sends a request to write. It leaves obj as it is if the response is lost.
func (e *side) write(verb string, obj client.Object, do func(*unstructured.Unstructured) error) error {
	answer := obj.(*unstructured.Unstructured).DeepCopy()
	call, done := verb+" "+plan.Name(obj.(*unstructured.Unstructured))+" at "+e.name, false
	err := e.send(call, func() error {
		err := do(answer)
		done = err == nil
		return err
	})
	if done {
		e.checkActive(call)
		if e.after != nil {
			e.after(call)
		}
	}
	if err == nil {
		obj.(*unstructured.Unstructured).Object = answer.DeepCopy().Object
	}
	return err
}

// checkDeletion checks that the other side has what is deleted, that nothing is garbage
// afterwards, and that controllers can see that the object only moves.
func (e *side) checkDeletion(obj *unstructured.Unstructured) {
	e.t.Helper()
	if obj.GetName() == JournalName || obj.GetName() == replacedName {
		return
	}
	name, other := plan.Name(obj), e.source
	if e.name == "source" {
		other = e.target
	}
	if e.deleted == name || e.deleted == everything {
		return
	}
	if copied := other.objects[name]; copied == nil || copied.GetDeletionTimestamp() != nil {
		e.t.Errorf("%s is deleted at %s, and is not at %s", name, e.name, other.name)
	}
	for child, owned := range e.objects {
		if slices.ContainsFunc(owned.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == obj.GetUID() }) {
			e.t.Errorf("%s is deleted at %s before %s, which it owns", name, e.name, child)
		}
	}
	if _, marked := obj.GetAnnotations()[clusterctlv1.DeleteForMoveAnnotation]; !marked && obj.GetKind() != "Secret" {
		e.t.Errorf("%s is deleted at %s without annotation", name, e.name)
	}
}

// checkActive checks that neither a Cluster nor a class is reconciled by both sides.
func (s *sides) checkActive(call string) {
	s.t.Helper()
	for name, here := range s.source.objects {
		i, there := plan.Item{Kind: plan.Kind{GroupVersionKind: here.GroupVersionKind()}}, s.target.objects[name]
		if name != s.both && plan.Pausable(i) && there != nil && !plan.Paused(i, here) && !plan.Paused(i, there) {
			s.t.Errorf("after %s, %s is at both sides, and paused at none", call, name)
		}
	}
}
