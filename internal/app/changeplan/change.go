// SPDX-License-Identifier: Apache-2.0

package changeplan

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/internal/access/shards"
	"github.com/capstan-dev/capstan/internal/app/webhooks"
	"github.com/capstan-dev/capstan/internal/kit/conversion"
	"github.com/capstan-dev/capstan/internal/pure/outcome"
)

// Write is one write of a change.
type Write struct {
	// Object has the fields to write. It has a namespace if its kind has one.
	Object *unstructured.Unstructured
	// Patch is ApplyPatchType or MergePatchType; empty replaces the object.
	Patch types.PatchType
	// Delete deletes the object, of which only the name matters.
	Delete bool
	// Waits is true for a write that follows when the ones before have been carried out.
	Waits bool
}

// Record returns a client that records updates instead of sending them, and what it
// has recorded. Dry runs are sent.
func Record(c client.WithWatch) (client.WithWatch, *[]Write) {
	var all []Write
	return interceptor.NewClient(c, interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			u, is := obj.(*unstructured.Unstructured)
			if len((&client.UpdateOptions{}).ApplyOptions(opts).DryRun) > 0 || !is {
				return c.Update(ctx, obj, append(opts, client.DryRunAll)...)
			}
			all = append(all, Write{Object: u.DeepCopy()})
			return nil
		},
	}), &all
}

// written is a write and what the server makes of it.
type written struct {
	waits   bool
	before  client.Object // nil if it is created
	after   client.Object // if it is deleted, as it is before
	deletes bool
	name    planv1.Object
	cluster string // to which it belongs; "" if it is shared
}

// rehearse sends a write as a dry run, so that admission, defaults, validation and
// managedFields are those of the server.
func rehearse(ctx context.Context, mgmt client.Client, w Write, manager string) (*written, error) {
	obj := w.Object
	name := planv1.Object{Kind: obj.GetKind(), Namespace: obj.GetNamespace(), Name: obj.GetName()}
	of := fmt.Sprintf("%s %s", name.Kind, client.ObjectKeyFromObject(obj))
	out := &written{name: name, waits: w.Waits, deletes: w.Delete}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(storedKind(mgmt.Scheme(), obj.GroupVersionKind()))
	switch err := mgmt.Get(ctx, client.ObjectKeyFromObject(obj), live); {
	case err == nil:
		if out.before, err = typed(mgmt.Scheme(), live); err != nil {
			return nil, fmt.Errorf("read %s: %w", of, err)
		}
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("read %s: %w", of, err)
	case w.Delete || w.Patch != types.ApplyPatchType:
		return nil, fmt.Errorf("change %s: it does not exist", of)
	}
	if w.Delete {
		out.after, out.name.Action, out.cluster = out.before, planv1.Deleted, shards.ClusterOf(out.before)
		if _, err := Send(ctx, mgmt, w, manager, true); err != nil {
			return nil, fmt.Errorf("the management cluster refuses the deletion of %s: %w", of, err)
		}
		return out, nil
	}
	after, err := Send(ctx, mgmt, w, manager, true)
	if err != nil {
		return nil, fmt.Errorf("the management cluster refuses the change of %s: %w", of, err)
	}
	if out.after, err = typed(mgmt.Scheme(), after); err != nil {
		return nil, fmt.Errorf("read %s: %w", of, err)
	}
	out.name.Action, out.cluster = planv1.Created, shards.ClusterOf(out.after)
	if out.before != nil {
		out.name.Action, out.name.Fields = planv1.Changed, outcome.Fields(out.before, out.after)
	}
	return out, nil
}

// Send sends a write, and returns what the server makes of it. A dry run stores nothing.
func Send(ctx context.Context, mgmt client.Client, w Write, manager string, dryRun bool) (*unstructured.Unstructured, error) {
	after := w.Object.DeepCopy()
	var remove []client.DeleteOption
	var update []client.UpdateOption
	opts := []client.PatchOption{client.FieldOwner(manager), client.FieldValidation(metav1.FieldValidationStrict)}
	if dryRun {
		remove, update, opts = append(remove, client.DryRunAll), append(update, client.DryRunAll), append(opts, client.DryRunAll)
	}
	if w.Delete {
		return after, mgmt.Delete(ctx, after, remove...)
	}
	if w.Patch == "" {
		return after, mgmt.Update(ctx, after, update...)
	}
	data, err := after.MarshalJSON()
	if err != nil {
		return nil, err
	}
	if w.Patch == types.ApplyPatchType {
		opts = append(opts, client.ForceOwnership)
	}
	return after, mgmt.Patch(ctx, after, client.RawPatch(w.Patch, data), opts...)
}

// storedKind is a kind at the version that the scheme has of it.
func storedKind(scheme *runtime.Scheme, gvk schema.GroupVersionKind) schema.GroupVersionKind {
	if known := scheme.VersionsForGroupKind(gvk.GroupKind()); len(known) > 0 && !scheme.Recognizes(gvk) {
		return known[0].WithKind(gvk.Kind)
	}
	return gvk
}

// converter converts what a server returns at an old version.
var converter = sync.OnceValues(func() (*conversion.Converter, error) { return webhooks.NewConverter(nil) })

// typed converts an object to the version and type of the scheme; it stays as it is if the
// scheme does not have its kind.
func typed(scheme *runtime.Scheme, u *unstructured.Unstructured) (client.Object, error) {
	gvk := storedKind(scheme, u.GroupVersionKind())
	if !scheme.Recognizes(gvk) {
		return u, nil
	}
	fields := u.Object
	if gvk != u.GroupVersionKind() {
		c, err := converter()
		if err == nil {
			fields, err = c.Object(fields, gvk.GroupVersion().String())
		}
		if err != nil {
			return nil, err
		}
	}
	obj, err := scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	return obj.(client.Object), runtime.DefaultUnstructuredConverter.FromUnstructured(fields, obj)
}

// follow makes the change in a copy whose object has changed since: only the fields
// that the change changes are written.
func (w *written) follow(ctx context.Context, mgmt client.Client) error {
	if w.before == nil {
		return mgmt.Create(ctx, w.stored(metav1.Time{}))
	}
	was, is := w.before.DeepCopyObject().(client.Object), w.after.DeepCopyObject().(client.Object)
	for _, obj := range []client.Object{was, is} {
		obj.SetManagedFields(nil)
		obj.SetResourceVersion("")
		obj.SetGeneration(0)
	}
	data, err := client.MergeFrom(was).Data(is)
	if err != nil {
		return err
	}
	return mgmt.Patch(ctx, is, client.RawPatch(types.MergePatchType, data))
}

// perform makes the write in a copy; waited means that the copy has run since the
// change began.
func (w *written) perform(ctx context.Context, c *copied, waited bool) error {
	switch {
	case w.deletes:
		return client.IgnoreNotFound(c.Mgmt.Delete(ctx, w.after.DeepCopyObject().(client.Object)))
	case waited:
		return w.follow(ctx, c.Mgmt)
	}
	return c.Put(w.stored(metav1.NewTime(c.Clock.Now())))
}

// stored is the object as a server stores it at a time: a dry run gives a new object
// no time of its own that the copy could use.
func (w *written) stored(now metav1.Time) client.Object {
	obj := w.after.DeepCopyObject().(client.Object)
	if w.before == nil {
		obj.SetCreationTimestamp(now)
	}
	return obj
}
