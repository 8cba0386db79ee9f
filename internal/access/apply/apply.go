// SPDX-License-Identifier: Apache-2.0

// Package apply writes objects by server-side apply, and only if that changes
// something.
//
// A Write compares the desired object with the live object in the cache; usually
// they match and nothing is sent. An object that is not found is created by an
// apply that the server refuses if an object of that name exists after all. Lost
// managedFields are restored before anything else. The response to an apply is
// compared again: if the server stored something in another form, the apply is
// repeated at most once, and the result is cached. A refusal is cached as well.
//
// Package controller ensures that the cache shows a write before the next reconcile
// of the same object starts.
//
// Schemas are those of the kinds, read from their CRDs, in the form in which an intent
// is compared with a live object.
package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/pure/ssadiff"
)

// Writer applies objects under one field manager. It is safe for concurrent use.
type Writer struct {
	Mgmt    client.Client // records each write
	Live    client.Reader // bypasses the cache
	Schemas *Schemas
	Manager client.FieldOwner
	Clock   clock.PassiveClock
}

// Did is the effect of a Write.
type Did string

// The effects of a Write.
const (
	Nothing Did = ""        // the object was as desired
	Created Did = "Created" // the object did not exist
	Applied Did = "Applied" // the object was changed
	// Seeded: the managedFields were lost and have been restored; a change that was
	// also needed has been applied. Fields that ceased to be desired after the loss
	// remain, because nothing records them.
	Seeded Did = "Seeded"
)

// Outcome is the result of a Write.
type Outcome struct {
	Did    Did
	Reason ssadiff.Reason // why a change was needed
	// Object is the current object: the response, or the object from the cache.
	Object *unstructured.Unstructured
	// Remains are fields that were released but are still held by other managers,
	// while the desired state is unchanged. A restart loses them.
	Remains []ssadiff.Remainder
}

// Write changes an object to its desired state. live is the object in the cache,
// nil if it was not found; m caches results for the objects that belong together
// with it. Write changes neither wanted nor live.
//
// It returns a Conflict error if live is nil but an object of that name exists, and
// if the object has been replaced by another one.
func (w *Writer) Write(ctx context.Context, wanted, live *unstructured.Unstructured, m *Memory) (Outcome, error) {
	what := fmt.Sprintf("apply %s %s", wanted.GetKind(), client.ObjectKeyFromObject(wanted))
	of, err := w.Schemas.Type(ctx, wanted.GroupVersionKind())
	if err != nil {
		return Outcome{}, fmt.Errorf("%s: %w", what, err)
	}
	hash, err := hashOf(wanted)
	if err != nil {
		return Outcome{}, fmt.Errorf("%s: %w", what, err)
	}
	r := m.recall(wanted, record{of: of, hash: hash}, w.Clock.Now())
	if r.knows(live) {
		return Outcome{Object: live, Remains: r.remains}, r.refusal
	}
	in, err := of.Intend(string(w.Manager), runtime.DeepCopyJSON(wanted.Object))
	if err != nil {
		return Outcome{}, r.refuse(live, fmt.Errorf("%s: %w", what, err), w.Clock.Now())
	}
	t := &try{Writer: w, in: in, record: r, live: live}
	out, err := t.write(ctx)
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
		if refused(err) {
			return Outcome{}, r.refuse(live, err, w.Clock.Now())
		}
		return Outcome{}, err
	}
	r.note(out.Object)
	return out, nil
}

// SpecUnchanged reports whether a Write would leave the spec of the live object unchanged,
// so that an immutable object need not be replaced. m is the cache of results, as
// for Write.
func (w *Writer) SpecUnchanged(ctx context.Context, wanted, live *unstructured.Unstructured, m *Memory) (bool, error) {
	of, err := w.Schemas.Type(ctx, wanted.GroupVersionKind())
	if err != nil {
		return false, fmt.Errorf("compare %s %s with the desired object: %w", live.GetKind(), client.ObjectKeyFromObject(live), err)
	}
	hash, err := hashOf(wanted)
	if err != nil {
		return false, fmt.Errorf("compare %s %s with the desired object: %w", live.GetKind(), client.ObjectKeyFromObject(live), err)
	}
	if m.holds(wanted, live, record{of: of, hash: hash}) {
		return true, nil
	}
	in, err := of.Intend(string(w.Manager), runtime.DeepCopyJSON(wanted.Object))
	if err != nil {
		return false, err
	}
	return in.SpecUnchanged(live.Object)
}

// Applied returns the current values of the fields that were applied to a live
// object; nil if none were.
func (w *Writer) Applied(ctx context.Context, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	of, err := w.Schemas.Type(ctx, live.GroupVersionKind())
	if err != nil {
		return nil, fmt.Errorf("find the applied fields of %s %s: %w", live.GetKind(), client.ObjectKeyFromObject(live), err)
	}
	fields, err := of.Applied(string(w.Manager), live.Object)
	if err != nil || fields == nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: fields}, nil
}

// try is one Write.
type try struct {
	*Writer
	in     *ssadiff.Intent
	record *record
	live   *unstructured.Unstructured
}

func (t *try) write(ctx context.Context) (Outcome, error) {
	if t.live == nil {
		// No object ever has this version, so any object that exists conflicts.
		return t.apply(ctx, Outcome{Did: Created, Reason: ssadiff.NeverApplied}, "resourceVersion", "1")
	}
	v := t.in.Against(t.live.Object, t.record.settled)
	if v.Reason == ssadiff.Misfit || v.Reason == ssadiff.FieldsLost {
		// Only the cached object may be older than the schema: a new default causes no
		// event. Nor does the cache store all managedFields.
		if err := t.read(ctx); err != nil {
			return Outcome{}, err
		}
		v = t.in.Against(t.live.Object, t.record.settled)
	}
	out := Outcome{Did: Applied, Reason: v.Reason, Object: t.live, Remains: t.record.remains}
	if v.Reason == ssadiff.FieldsLost {
		if err := t.seed(ctx); err != nil {
			return Outcome{}, err
		}
		out.Did, out.Object = Seeded, t.live
		if v = t.in.Against(t.live.Object, nil); !v.Changed() {
			return out, nil
		}
	}
	if !v.Changed() {
		out.Did = Nothing
		return out, nil
	}
	if v.Removed != nil {
		var err error
		if out.Remains, err = t.in.Remains(t.live.Object, v); err != nil {
			return Outcome{}, err
		}
	}
	return t.apply(ctx, out, "uid", string(t.live.GetUID()))
}

// apply sends the intent under a precondition, and repeats it if the response does
// not contain it. Two attempts are enough: a map or list that loses its last item
// is removed completely, and a second apply writes the empty one; a webhook makes
// its change each time. If the second attempt is refused, the result of the first
// stands.
func (t *try) apply(ctx context.Context, out Outcome, precondition, value string) (Outcome, error) {
	answer, err := t.send(ctx, precondition, value)
	if err != nil {
		return Outcome{}, err
	}
	var settled *ssadiff.Settled
	if t.in.Against(answer.Object, nil).Changed() {
		again, err := t.send(ctx, "uid", string(answer.GetUID()))
		if err != nil && !refused(err) {
			return Outcome{}, err
		}
		if err == nil {
			answer = again
		}
		settled = t.in.Settle(answer.Object)
	}
	t.record.settle(settled, t.Clock.Now())
	t.record.remains = out.Remains
	out.Object = answer
	return out, nil
}

func (t *try) send(ctx context.Context, precondition, value string) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(t.in.Object())}
	if err := unstructured.SetNestedField(obj.Object, value, "metadata", precondition); err != nil {
		return nil, err
	}
	body, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	err = t.Mgmt.Patch(ctx, obj, client.RawPatch(types.ApplyPatchType, body), t.Manager, client.ForceOwnership)
	if replaced(err) {
		err = apierrors.NewConflict(schema.GroupResource{Group: obj.GroupVersionKind().Group, Resource: obj.GetKind()}, obj.GetName(), err)
	}
	return obj, err
}

// replaced reports whether an apply met another object than the intended one. The
// server reports this as a change of an immutable field; if the object does not
// exist, as a conflict.
func replaced(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}

// seed restores lost managedFields if the object is unchanged.
func (t *try) seed(ctx context.Context) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": t.live.GetResourceVersion(), "uid": t.live.GetUID(), "managedFields": t.in.Seed(t.live.Object),
	}})
	if err != nil {
		return err
	}
	obj := t.live.DeepCopy()
	if err := t.Mgmt.Patch(ctx, obj, client.RawPatch(types.MergePatchType, body), t.Manager); err != nil {
		return fmt.Errorf("rewrite its managedFields: %w", err)
	}
	t.live = obj
	return nil
}

// read reads the live object from the server.
func (t *try) read(ctx context.Context) error {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(t.live.GroupVersionKind())
	if err := t.Live.Get(ctx, client.ObjectKeyFromObject(t.live), obj); err != nil {
		return err
	}
	t.live = obj
	return nil
}
