// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// firstVersion is that of a new object. A client that requires another one, such as
// "1", requires that the object does not exist.
const firstVersion = "2"

// Create implements client.Writer.
func (s *apiServer) Create(_ context.Context, obj client.Object, opts ...client.CreateOption) (err error) {
	o := (&client.CreateOptions{}).ApplyOptions(opts)
	if len(o.DryRun) > 0 {
		return nil
	}
	gvk, err := s.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	switch {
	case obj.GetName() == "":
		return apierrors.NewInvalid(gvk.GroupKind(), "", nil)
	case obj.GetResourceVersion() != "":
		return apierrors.NewBadRequest("resourceVersion can not be set for Create requests")
	}
	of, err := encode(obj)
	if err != nil {
		return err
	}
	next, err := s.decode(gvk, of)
	if err != nil {
		return err
	}
	next.SetDeletionTimestamp(nil)
	next.SetResourceVersion(firstVersion)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin(next)
	t := s.table(gvk)
	defer func() { s.ended(t.resource, err) }()
	if t.records[client.ObjectKeyFromObject(obj)] != nil {
		return apierrors.NewAlreadyExists(t.resource.GroupResource(), obj.GetName())
	}
	r, err := s.managed(gvk, nil, next, o.FieldManager)
	if err != nil {
		return err
	}
	if r, err = s.admitted(gvk, nil, r); err != nil {
		return err
	}
	s.put(gvk, r)
	return r.fill(gvk, obj, false)
}

// Update implements client.Writer.
func (s *apiServer) Update(_ context.Context, obj client.Object, opts ...client.UpdateOption) error {
	return s.update(obj, false, (&client.UpdateOptions{}).ApplyOptions(opts))
}

func (s *apiServer) update(obj client.Object, status bool, o *client.UpdateOptions) error {
	if len(o.DryRun) > 0 {
		return nil
	}
	return s.write(obj, status, o.FieldManager, func(old *record) (map[string]any, error) {
		of, err := encode(obj)
		if err != nil {
			return nil, err
		}
		of = maps.Clone(of)
		metadata, _ := of["metadata"].(map[string]any)
		if metadata = maps.Clone(metadata); metadata == nil {
			metadata = map[string]any{}
		}
		of["metadata"] = metadata
		// Clients that do not know managedFields must not delete them.
		delete(metadata, "managedFields")
		return of, nil
	})
}

// Patch implements client.Writer.
func (s *apiServer) Patch(_ context.Context, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
	return s.patch(obj, p, false, (&client.PatchOptions{}).ApplyOptions(opts))
}

func (s *apiServer) patch(obj client.Object, p client.Patch, status bool, o *client.PatchOptions) error {
	if errs := validation.ValidatePatchOptions(o.AsPatchOptions(), p.Type()); len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "PatchOptions"}, "", errs)
	}
	if len(o.DryRun) > 0 {
		return nil
	}
	data, err := p.Data(obj)
	if err != nil {
		return err
	}
	if p.Type() == types.ApplyPatchType {
		return s.apply(obj, data, o.FieldManager, ptr.Deref(o.Force, false))
	}
	return s.write(obj, status, o.FieldManager, func(old *record) (map[string]any, error) {
		if p.Type() == types.StrategicMergePatchType {
			return strategicallyPatched(old, data)
		}
		return patched(old.bare(), p.Type(), data)
	})
}

// strategicallyPatched returns the fields of an object of a built-in kind after a
// strategic merge patch.
func strategicallyPatched(old *record, data []byte) (map[string]any, error) {
	change := strategicpatch.JSONMap{}
	if err := utiljson.Unmarshal(data, &change); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	of, err := strategicpatch.StrategicMergeMapPatch(runtime.DeepCopyJSON(old.bare()), change, old.Object)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return of, nil
}

// patched returns the fields of an object after a patch, and leaves old as it is.
func patched(old map[string]any, of types.PatchType, data []byte) (map[string]any, error) {
	change := map[string]any{}
	switch of {
	case types.MergePatchType:
		err := utiljson.Unmarshal(data, &change)
		return mergePatch(old, change), err
	case types.JSONPatchType:
		p, err := jsonpatch.DecodePatch(data)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		text, err := json.Marshal(old)
		if err != nil {
			return nil, err
		}
		if text, err = p.Apply(text); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		err = utiljson.Unmarshal(text, &change)
		return change, err
	}
	return nil, apierrors.NewBadRequest(fmt.Sprintf("patch type %s is not supported in a simulation", of))
}

// mergePatch applies a JSON merge patch to a copy of the maps that it changes.
func mergePatch(old, change map[string]any) map[string]any {
	out := make(map[string]any, len(old))
	maps.Copy(out, old)
	for name, value := range change {
		switch value := value.(type) {
		case nil:
			delete(out, name)
		case map[string]any:
			below, _ := out[name].(map[string]any)
			out[name] = mergePatch(below, value)
		default:
			out[name] = value
		}
	}
	return out
}

// write replaces an object, or its status alone, by what change returns, and fills
// obj with the result.
func (s *apiServer) write(obj client.Object, status bool, manager string, change func(*record) (map[string]any, error)) (err error) {
	gvk, err := s.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.table(gvk)
	old := t.records[client.ObjectKeyFromObject(obj)]
	if old == nil || status && !s.status[gvk] {
		return apierrors.NewNotFound(t.resource.GroupResource(), obj.GetName())
	}
	of, err := change(old)
	if err != nil {
		return err
	}
	next, err := s.decode(gvk, s.part(gvk, old, of, status))
	if err != nil {
		return err
	}
	if err := s.replaces(gvk, old, next); err != nil {
		return err
	}
	defer func() { s.ended(t.resource, err) }()
	if err := sameObject(t.resource, old, next); err != nil {
		return err
	}
	r, err := s.store(gvk, old, next, manager, status)
	if err != nil {
		return err
	}
	return r.fill(gvk, obj, false)
}

// part returns the fields that a write to the status, or to all else, may change.
func (s *apiServer) part(gvk schema.GroupVersionKind, old *record, of map[string]any, status bool) map[string]any {
	if !s.status[gvk] {
		return of
	}
	into, from := maps.Clone(of), old.bare()
	if status {
		into, from = maps.Clone(old.bare()), of
		was, _ := into["metadata"].(map[string]any)
		is, _ := of["metadata"].(map[string]any)
		metadata := maps.Clone(was)
		metadata["resourceVersion"] = is["resourceVersion"]
		if entries, has := is["managedFields"]; has {
			metadata["managedFields"] = entries
		}
		into["metadata"] = metadata
	}
	delete(into, "status")
	if status, has := from["status"]; has {
		into["status"] = status
	}
	return into
}

// replaces checks that next may follow old, and gives it the next version.
func (s *apiServer) replaces(gvk schema.GroupVersionKind, old *record, next client.Object) error {
	if next.GetResourceVersion() == "" {
		next.SetResourceVersion(old.GetResourceVersion())
	}
	if next.GetResourceVersion() != old.GetResourceVersion() {
		return apierrors.NewConflict(s.table(gvk).resource.GroupResource(), old.GetName(), errors.New("object was modified"))
	}
	version, err := strconv.ParseUint(old.GetResourceVersion(), 10, 64)
	if err != nil {
		return err
	}
	next.SetResourceVersion(strconv.FormatUint(version+1, 10))
	was, is := old.GetDeletionTimestamp(), next.GetDeletionTimestamp()
	if was.IsZero() != is.IsZero() || !was.IsZero() && was.Sub(is.Time).Abs() >= time.Second {
		return fmt.Errorf("%s %s: metadata.deletionTimestamp is immutable", gvk.Kind, old.GetName())
	}
	return nil
}

// store stores what follows old, with its generation and managedFields, or deletes
// it if it has lost its last finalizer. It needs the lock. Who manages the fields of a
// status is not recorded: no controller reads that, and it is the most frequent write.
func (s *apiServer) store(gvk schema.GroupVersionKind, old *record, next client.Object, manager string, status bool) (*record, error) {
	if !next.GetDeletionTimestamp().IsZero() && len(next.GetFinalizers()) == 0 {
		s.remove(gvk, client.ObjectKeyFromObject(old))
		return newRecord(next, encoded(gvk, next)), nil
	}
	next.SetGeneration(old.GetGeneration())
	if status {
		next.SetManagedFields(old.GetManagedFields())
		r := newRecord(next, encoded(gvk, next))
		s.put(gvk, r)
		return r, nil
	}
	r, err := s.managed(gvk, old, next, manager)
	if err != nil {
		return nil, err
	}
	if r, err = s.admitted(gvk, old, r); err != nil {
		return nil, err
	}
	s.counted(old, r)
	s.put(gvk, r)
	return r, nil
}

// counted gives a record its generation.
func (s *apiServer) counted(old, r *record) {
	if !equality.Semantic.DeepEqual(desired(old.bare()), desired(r.bare())) {
		r.SetGeneration(old.GetGeneration() + 1)
		r.bare()["metadata"].(map[string]any)["generation"] = old.GetGeneration() + 1
	}
}

// desired is the part of an object that its generations count.
func desired(of map[string]any) map[string]any {
	of = maps.Clone(of)
	maps.DeleteFunc(of, func(name string, _ any) bool {
		return slices.Contains([]string{"kind", "apiVersion", "metadata", "status"}, name)
	})
	return of
}

// Delete implements client.Writer.
func (s *apiServer) Delete(_ context.Context, obj client.Object, opts ...client.DeleteOption) error {
	o := (&client.DeleteOptions{}).ApplyOptions(opts)
	if len(o.DryRun) > 0 {
		return nil
	}
	gvk, err := s.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.table(gvk)
	old := t.records[client.ObjectKeyFromObject(obj)]
	if old == nil {
		return apierrors.NewNotFound(t.resource.GroupResource(), obj.GetName())
	}
	if p := ptr.Deref(o.Preconditions, metav1.Preconditions{}); p.ResourceVersion != nil && *p.ResourceVersion != old.GetResourceVersion() || p.UID != nil && *p.UID != old.GetUID() {
		return apierrors.NewConflict(t.resource.GroupResource(), obj.GetName(), errors.New("object was modified"))
	}
	if len(old.GetFinalizers()) == 0 {
		defer s.wrote(t.resource)
		s.remove(gvk, client.ObjectKeyFromObject(obj))
		return nil
	}
	if !old.GetDeletionTimestamp().IsZero() {
		return nil
	}
	next := old.DeepCopyObject().(client.Object)
	if err := s.replaces(gvk, old, next); err != nil {
		return err
	}
	defer s.wrote(t.resource)
	next.SetDeletionTimestamp(ptr.To(s.now()))
	_, err = s.store(gvk, old, next, "", false)
	return err
}

// DeleteAllOf implements client.Writer.
func (*apiServer) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errors.New("delete all: not supported in a simulation")
}

// subresource writes the status of objects.
type subresource struct {
	*apiServer
	name string
}

// SubResource implements client.Client.
func (s *apiServer) SubResource(name string) client.SubResourceClient { return subresource{s, name} }

// Status implements client.Client.
func (s *apiServer) Status() client.SubResourceWriter { return s.SubResource("status") }

func (r subresource) unsupported() error {
	return fmt.Errorf("subresource %s: not supported in a simulation", r.name)
}

// Get implements client.SubResourceReader.
func (r subresource) Get(context.Context, client.Object, client.Object, ...client.SubResourceGetOption) error {
	return r.unsupported()
}

// Create implements client.SubResourceWriter.
func (r subresource) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	return r.unsupported()
}

// Update implements client.SubResourceWriter.
func (r subresource) Update(_ context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	o := (&client.SubResourceUpdateOptions{}).ApplyOptions(opts)
	if r.name != "status" || o.SubResourceBody != nil {
		return r.unsupported()
	}
	return r.update(obj, true, &o.UpdateOptions)
}

// Patch implements client.SubResourceWriter.
func (r subresource) Patch(_ context.Context, obj client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	o := (&client.SubResourcePatchOptions{}).ApplyOptions(opts)
	if r.name != "status" || o.SubResourceBody != nil {
		return r.unsupported()
	}
	return r.patch(obj, p, true, &o.PatchOptions)
}

// Apply implements client.SubResourceWriter.
func (r subresource) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return r.unsupported()
}
