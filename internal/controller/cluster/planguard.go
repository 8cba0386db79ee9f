// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/planguard"
)

// readGuard reads the PlanGuard of a Cluster, if there is one.
func (r *Reconciler) readGuard(ctx context.Context, s *state) error {
	g := &planv1.PlanGuard{}
	err := r.Mgmt.Get(ctx, client.ObjectKeyFromObject(s.cluster), g)
	if err == nil {
		s.guard = g
	}
	return client.IgnoreNotFound(err)
}

// planGuard creates the guard of a Cluster that requires plans, and ends a plan that has
// been carried out or whose deadline has passed. Admission refuses without it.
func (r *Reconciler) planGuard(ctx context.Context, s *state) (reconciler.Next, error) {
	c, required := s.cluster, s.cluster.Annotations[planv1.RequirePlanAnnotation] == "true"
	next := planguard.Decide(s.guard, required, s.members.Machines, s.now)
	switch {
	case next.Delete:
		if err := r.Mgmt.Delete(ctx, s.guard, client.Preconditions{ResourceVersion: &s.guard.ResourceVersion}); client.IgnoreNotFound(err) != nil {
			return reconciler.Continue(), fmt.Errorf("delete PlanGuard %s: %w", s.guard.Name, err)
		}
		s.guard = nil
	case next.Spec != nil && s.guard == nil:
		mine, err := owner.Reference(c, r.Mgmt)
		if err != nil {
			return reconciler.Continue(), err
		}
		s.guard = planguard.New(c, mine, *next.Spec)
		if err := r.Mgmt.Create(ctx, s.guard); err != nil {
			return reconciler.Continue(), fmt.Errorf("create the PlanGuard of a Cluster that requires plans: %w", err)
		}
	case next.Spec != nil:
		before := s.guard.DeepCopy()
		s.guard.Spec = *next.Spec
		if err := r.Mgmt.Patch(ctx, s.guard, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return reconciler.Continue(), fmt.Errorf("update PlanGuard %s: %w", s.guard.Name, err)
		}
	}
	if next.Ended != "" {
		r.event(s, next.Ended, "CarryOut", "%s", next.Message)
	}
	return reconciler.Continue(), nil
}

// endPlan ends the plan of a Cluster that is paused, as it would end otherwise: the plan
// may be the one that pauses it.
func (r *Reconciler) endPlan(ctx context.Context, s *state) (reconciler.Next, error) {
	if s.guard == nil || s.guard.Spec.Plan == "" {
		return reconciler.Continue(), nil
	}
	if _, err := r.planGuard(ctx, s); err != nil {
		return reconciler.Continue(), err
	}
	if s.guard == nil || s.guard.Spec.Plan == "" {
		conditions.Delete(s.cluster, planv1.PlanHeldCondition)
		return reconciler.Continue(), nil
	}
	return reconciler.RequeueAfter(planguard.Deadline(s.guard, s.now).Sub(s.now)), nil
}
