// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/clusterctl/move/plan"
)

// rollBack restores the objects of the source. Objects that were deleted there are
// created again from their copies at the target; the copies are deleted only when the
// source has all objects. A move that only copied has deleted none: what the source lacks
// was deleted by another client.
func (m *mover) rollBack(ctx context.Context) error {
	p := m.here.plan
	there, err := readState(ctx, m.target, p, m.Parallel)
	if err != nil {
		return err
	}
	if !m.here.Intact {
		if err := m.restore(ctx, p, there); err != nil {
			return err
		}
	}
	if m.there != nil { // otherwise, that was done, or not started
		if err := m.undo(ctx, p, there); err != nil {
			return err
		}
		if err := removeReplaced(ctx, m.target, m.Namespace); err != nil {
			return err
		}
	}
	here, err := readState(ctx, m.source, p, m.Parallel)
	if err != nil {
		return err
	}
	if err := m.step(ctx, "Ending the pause at the source"); err != nil {
		return err
	}
	if err := m.seal(ctx, m.source, p, here, true); err != nil {
		return err
	}
	if m.there != nil {
		if err := m.there.remove(ctx); err != nil {
			return err
		}
	}
	return m.here.remove(ctx)
}

// restore creates at the source what was deleted there, and checks that nothing is
// missing.
func (m *mover) restore(ctx context.Context, p *plan.Plan, there state) error {
	if err := m.step(ctx, "Giving back to the source what was deleted"); err != nil {
		return err
	}
	here, err := readState(ctx, m.source, p, m.Parallel)
	if err != nil {
		return err
	}
	back := &restoring{mover: m, there: there, uids: map[types.UID]types.UID{}}
	// One at a time: a rollback after so many deletions is not urgent.
	for _, i := range p.Items {
		if i.Keep != "" {
			continue
		}
		if err := back.restore(ctx, i, here.find(i)); err != nil {
			return err
		}
	}
	if here, err = readState(ctx, m.source, p, m.Parallel); err != nil {
		return err
	}
	var errs []error
	for _, i := range p.Items {
		if obj := here.find(i); i.Keep == "" && (obj == nil || obj.GetDeletionTimestamp() != nil) {
			errs = append(errs, fmt.Errorf("%s: %s does not exist again: roll back again", m.source, i))
		}
	}
	return errors.Join(errs...)
}

// restoring is the transfer back to the source.
type restoring struct {
	*mover
	there state
	uids  map[types.UID]types.UID // at the source, by those at the target
}

// restore restores one object at the source. obj is what the source has; nil if it has
// none.
func (r *restoring) restore(ctx context.Context, i plan.Item, obj *unstructured.Unstructured) error {
	from := r.there.find(i)
	if from != nil && plan.MarkOf(from).Operation != r.here.Operation {
		from = nil // an unrelated object of that name
	}
	if obj != nil && obj.GetDeletionTimestamp() != nil {
		// A deletion cannot be undone: it is completed, and the object created again.
		if from == nil {
			return fmt.Errorf("%s is being deleted at the source, and is not at the target: keep its finalizers, and take the annotation %s off", i, clusterctlv1.DeleteForMoveAnnotation)
		}
		if err := takeAsRead(ctx, r.source, obj.DeepCopy()); err != nil && !missing(err) {
			return err
		}
		obj = nil
	}
	if obj == nil {
		if from == nil {
			return fmt.Errorf("%s is neither at the source nor at the target: nothing was changed; restore it from a backup, and roll back again", i)
		}
		copied, err := plan.Copy(i, from, plan.Mark{Operation: r.here.Operation}, r.uids)
		if err != nil {
			return err
		}
		err = r.source.Create(ctx, copied)
		if apierrors.IsAlreadyExists(err) { // by a request whose response was lost
			copied, err = r.source.Get(ctx, i.Kind, types.NamespacedName{Namespace: i.Namespace, Name: i.Name})
		}
		if err != nil {
			return err
		}
		obj = copied
	} else if _, marked := obj.GetAnnotations()[clusterctlv1.DeleteForMoveAnnotation]; marked {
		obj = obj.DeepCopy()
		if err := r.source.Patch(ctx, obj, map[string]any{"metadata": map[string]any{"annotations": map[string]any{clusterctlv1.DeleteForMoveAnnotation: nil}}}); err != nil {
			return err
		}
	}
	if from != nil {
		r.uids[from.GetUID()] = obj.GetUID()
	}
	return nil
}

// undo deletes copies at the target, and restores the objects that they replaced.
func (m *mover) undo(ctx context.Context, p *plan.Plan, there state) error {
	copied := func(i plan.Item, replaced bool) *unstructured.Unstructured {
		obj := there.find(i)
		if obj == nil || plan.MarkOf(obj).Operation != m.main().Operation || plan.MarkOf(obj).Replaced != replaced {
			return nil
		}
		return obj
	}
	var before map[types.UID]*unstructured.Unstructured
	for _, i := range p.Items {
		obj := copied(i, true)
		if obj == nil {
			continue
		}
		if before == nil {
			var err error
			if before, err = readReplaced(ctx, m.target, m.Namespace); err != nil {
				return err
			}
		}
		was := before[i.UID]
		if was == nil {
			return fmt.Errorf("%s: %s replaced another object, of which nothing is known any more (Secret %s/%s): delete one of both", m.target, i, m.Namespace, replacedName)
		}
		if err := m.putBack(ctx, i, obj, was); err != nil {
			return err
		}
	}
	return m.takeAll(ctx, m.target, p, "target", func(i plan.Item) *unstructured.Unstructured { return copied(i, false) },
		func(plan.Item, *unstructured.Unstructured) error { return nil })
}

// putBack replaces a copy by the object that had its name before. After a conflict it
// reads again: the response may have been lost, or another client has written the copy.
func (m *mover) putBack(ctx context.Context, i plan.Item, obj, was *unstructured.Unstructured) error {
	const rereads = 5
	unstructured.RemoveNestedField(was.Object, "metadata", "managedFields")
	for n := 0; ; n++ {
		was.SetResourceVersion(obj.GetResourceVersion())
		err := m.target.Update(ctx, was)
		if !apierrors.IsConflict(err) || n == rereads {
			return err
		}
		if obj, err = m.target.Get(ctx, i.Kind, types.NamespacedName{Namespace: i.Namespace, Name: i.Name}); err != nil {
			return err
		}
		if plan.MarkOf(obj).Operation != m.here.Operation {
			return nil
		}
	}
}
