// SPDX-License-Identifier: Apache-2.0

// Package apply writes objects by server-side apply, and only when that changes
// something.
//
// A Write compares what is wanted with the live object as it is in the cache;
// mostly nothing is to be done, and nothing is sent. An object that is not there
// is created by an apply that is refused if there is one of its name after all.
// Lost managedFields are written anew before anything else. The answer to an
// apply is compared again: what the server stored in another form is applied
// once more at most, and remembered after that. A refusal is remembered as well.
//
// That the cache shows a write before the next reconcile of the same object
// begins is the business of package controller.
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

	"github.com/capstan-dev/capstan/internal/access/schemas"
	"github.com/capstan-dev/capstan/internal/pure/topology/intent"
)

// Writer applies objects under one field manager. It may be used by several
// reconciles at once.
type Writer struct {
	Mgmt    client.Client // notes what is written
	Live    client.Reader // past the cache
	Schemas *schemas.Cache
	Manager client.FieldOwner
	Clock   clock.PassiveClock
}

// Did is what a Write did.
type Did string

// What a Write can do.
const (
	Nothing Did = ""        // all is as wanted
	Created Did = "Created" // the object was not there
	Applied Did = "Applied" // it was changed
	// Seeded: its managedFields were lost and are written anew; a change that was
	// needed as well has been applied. Fields that are wanted no more since they
	// were lost stay: nobody knows them any more.
	Seeded Did = "Seeded"
)

// Outcome is what a Write did and found.
type Outcome struct {
	Did    Did
	Reason intent.Reason // why it was to be changed
	// Object is the object as it is now: the answer, or what was in the cache.
	Object *unstructured.Unstructured
	// Remains are fields that were let go and are held by others, as long as the
	// same is wanted; a restart forgets them.
	Remains []intent.Remainder
}

// Write brings an object to what is wanted. live is the object in the cache, nil
// if it is not there; m is what is known from before of the objects that belong
// together with it. Neither wanted nor live is changed.
//
// An object of that name that exists in spite of live being nil gives a Conflict
// error, as does one that has been replaced by another.
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

// Keeps reports whether a Write would leave the spec of the live object as it is,
// so that no other has to take the place of one that cannot be changed. m is what
// is known from before, as for Write.
func (w *Writer) Keeps(ctx context.Context, wanted, live *unstructured.Unstructured, m *Memory) (bool, error) {
	of, err := w.Schemas.Type(ctx, wanted.GroupVersionKind())
	if err != nil {
		return false, fmt.Errorf("compare %s %s with what is wanted: %w", live.GetKind(), client.ObjectKeyFromObject(live), err)
	}
	hash, err := hashOf(wanted)
	if err != nil {
		return false, fmt.Errorf("compare %s %s with what is wanted: %w", live.GetKind(), client.ObjectKeyFromObject(live), err)
	}
	if m.holds(wanted, live, record{of: of, hash: hash}) {
		return true, nil
	}
	in, err := of.Intend(string(w.Manager), runtime.DeepCopyJSON(wanted.Object))
	if err != nil {
		return false, err
	}
	return in.Keeps(live.Object)
}

// Applied is what was applied of a live object, as it is by now; nil if nothing was.
func (w *Writer) Applied(ctx context.Context, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	of, err := w.Schemas.Type(ctx, live.GroupVersionKind())
	if err != nil {
		return nil, fmt.Errorf("tell what was applied of %s %s: %w", live.GetKind(), client.ObjectKeyFromObject(live), err)
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
	in     *intent.Intent
	record *record
	live   *unstructured.Unstructured
}

func (t *try) write(ctx context.Context) (Outcome, error) {
	if t.live == nil {
		// No object has ever had this version, so that one that is there differs.
		return t.apply(ctx, Outcome{Did: Created, Reason: intent.NeverApplied}, "resourceVersion", "1")
	}
	v := t.in.Against(t.live.Object, t.record.settled)
	if v.Reason == intent.Misfit || v.Reason == intent.FieldsLost {
		// The object may be older than the schema, in the cache alone: an event is
		// not sent for a new default. Nor does the cache keep all managedFields.
		if err := t.read(ctx); err != nil {
			return Outcome{}, err
		}
		v = t.in.Against(t.live.Object, t.record.settled)
	}
	out := Outcome{Did: Applied, Reason: v.Reason, Object: t.live, Remains: t.record.remains}
	if v.Reason == intent.FieldsLost {
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

// apply sends the intent, under a precondition, and once more if the answer does
// not hold it. Two is enough: a map or list that loses its last item goes wholly,
// and a second apply writes the empty one; what a webhook changes it changes
// again. A refusal of the second is none of the first, which stands.
func (t *try) apply(ctx context.Context, out Outcome, precondition, value string) (Outcome, error) {
	answer, err := t.send(ctx, precondition, value)
	if err != nil {
		return Outcome{}, err
	}
	var settled *intent.Settled
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

// replaced reports whether an apply met another object than it was meant for. A
// server calls that a change of a field that is immutable; if there is no object
// at all, a conflict.
func replaced(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}

// seed writes managedFields that were lost, if the object is still as it was.
func (t *try) seed(ctx context.Context) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": t.live.GetResourceVersion(), "uid": t.live.GetUID(), "managedFields": t.in.Seed(t.live.Object),
	}})
	if err != nil {
		return err
	}
	obj := t.live.DeepCopy()
	if err := t.Mgmt.Patch(ctx, obj, client.RawPatch(types.MergePatchType, body), t.Manager); err != nil {
		return fmt.Errorf("write its managedFields anew: %w", err)
	}
	t.live = obj
	return nil
}

// read takes the live object from the server.
func (t *try) read(ctx context.Context) error {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(t.live.GroupVersionKind())
	if err := t.Live.Get(ctx, client.ObjectKeyFromObject(t.live), obj); err != nil {
		return err
	}
	t.live = obj
	return nil
}
