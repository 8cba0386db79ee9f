// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/clusterctl/move/plan"
)

// empty deletes at the source the objects that the target has, owned objects before their
// owners. It compares each again before its deletion.
func (m *mover) empty(ctx context.Context) error {
	p := m.here.plan
	here, err := readState(ctx, m.source, p, m.Parallel)
	if err != nil {
		return err
	}
	there, err := readState(ctx, m.target, p, m.Parallel)
	if err != nil {
		return err
	}
	uids := uidsOf(p, there)
	same := func(i plan.Item, obj *unstructured.Unstructured) error {
		return m.same(i, obj, there.find(i), uids)
	}
	var errs []error
	for _, i := range p.Items {
		if obj := here.find(i); i.Keep == "" && obj != nil && obj.GetUID() == i.UID {
			errs = append(errs, same(i, obj))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := m.takeAll(ctx, m.source, p, "source", func(i plan.Item) *unstructured.Unstructured {
		obj := here.find(i)
		if i.Keep != "" || obj == nil || obj.GetUID() != i.UID {
			return nil
		}
		return obj
	}, same); err != nil {
		return err
	}
	return m.checkEmpty(ctx, p)
}

// same returns an error if an object of the source differs from its copy.
func (m *mover) same(i plan.Item, obj, have *unstructured.Unstructured, uids map[types.UID]types.UID) error {
	remedy := "; move with --rollback, and then again"
	if have == nil {
		return fmt.Errorf("%s: %s is gone there, and must not be deleted at the source%s", m.target, i, remedy)
	}
	want, err := plan.Copy(i, obj, plan.Mark{Operation: m.main().Operation}, uids)
	if err != nil {
		return err
	}
	if different := plan.Differences(want, have); len(different) > 0 {
		return fmt.Errorf("%s and %s differ in %s (%s): one was changed after they were compared%s", m.source, m.target, i, some(different), remedy)
	}
	return nil
}

// uidsOf returns the UIDs of the marked objects at the other side.
func uidsOf(p *plan.Plan, there state) map[types.UID]types.UID {
	uids := map[types.UID]types.UID{}
	for _, i := range p.Items {
		if obj := there.find(i); obj != nil {
			uids[i.UID] = obj.GetUID()
		}
	}
	return uids
}

// takeAll deletes objects of a side in the reverse order of their creation.
func (m *mover) takeAll(ctx context.Context, side Plane, p *plan.Plan, where string, find func(plan.Item) *unstructured.Unstructured, same func(plan.Item, *unstructured.Unstructured) error) error {
	groups := p.Groups()
	for n, group := range slices.Backward(groups) {
		group = slices.DeleteFunc(group, func(i plan.Item) bool { return find(i) == nil })
		if len(group) == 0 {
			continue
		}
		if err := m.step(ctx, "Deleting step %d of %d at the %s, %d objects", n+1, len(groups), where, len(group)); err != nil {
			return err
		}
		if err := each(ctx, m.Parallel, len(group), func(ctx context.Context, k int) error {
			i := group[k]
			return take(ctx, side, i.Kind, find(i), func(obj *unstructured.Unstructured) error { return same(i, obj) })
		}); err != nil {
			return err
		}
	}
	return nil
}

// checkEmpty verifies that the source has no moved objects left, and no new objects that
// would have moved.
func (m *mover) checkEmpty(ctx context.Context, p *plan.Plan) error {
	f, err := discover(ctx, m.source, m.Namespace, m.Parallel)
	if err != nil {
		return err
	}
	left := map[types.UID]bool{}
	for _, i := range p.Items {
		if obj := f.byUID[i.UID]; i.Keep == "" && obj != nil {
			return fmt.Errorf("%s: %s was deleted, and is held by %s: have its finalizers taken away, and move again", m.source, i, strings.Join(obj.GetFinalizers(), ", "))
		}
		left[i.UID] = true
	}
	for _, obj := range f.objects {
		for _, ref := range obj.GetOwnerReferences() {
			if left[ref.UID] && f.byUID[ref.UID] == nil {
				m.Progress(fmt.Sprintf("Note: %s came after everything was compared, and is left at the source; it belonged to %s %s", plan.Name(obj), ref.Kind, ref.Name))
			}
		}
	}
	return nil
}

// finish restores the original state of the copies, ends their pause, and deletes the
// journals of the move.
func (m *mover) finish(ctx context.Context) error {
	p := m.main().plan
	there, err := readState(ctx, m.target, p, m.Parallel)
	if err != nil {
		return err
	}
	if err := m.step(ctx, "Ending the move at the target"); err != nil {
		return err
	}
	if err := m.seal(ctx, m.target, p, there, false); err != nil {
		return err
	}
	if err := removeReplaced(ctx, m.target, m.Namespace); err != nil {
		return err
	}
	if m.here != nil {
		if err := m.here.remove(ctx); err != nil {
			return err
		}
		m.here = nil
	}
	if m.there == nil { // a user has deleted it
		return nil
	}
	return m.there.remove(ctx)
}

// seal ends a move for all objects of a side: classes are reconciled before the Clusters
// that use them, and all other objects have their final state by then. originals means
// that the side has the objects that the move has paused, not only copies.
func (m *mover) seal(ctx context.Context, side Plane, p *plan.Plan, have state, originals bool) error {
	var rounds [3][]plan.Item
	for _, i := range p.Items {
		switch {
		case have.find(i) == nil:
		case i.Of(plan.Clusters()):
			rounds[2] = append(rounds[2], i)
		case i.Of(plan.ClusterClasses()):
			rounds[1] = append(rounds[1], i)
		default:
			rounds[0] = append(rounds[0], i)
		}
	}
	for _, round := range rounds {
		if err := each(ctx, m.Parallel, len(round), func(ctx context.Context, n int) error {
			obj := have.find(round[n]).DeepCopy()
			patch := plan.Seal(round[n], obj, m.main().Operation, originals)
			if patch == nil {
				return nil
			}
			return side.Patch(ctx, obj, patch)
		}); err != nil {
			return err
		}
	}
	return nil
}
