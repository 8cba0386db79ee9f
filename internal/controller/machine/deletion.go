// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/controller/machine/machinedeletion"
	"github.com/capstan-dev/capstan/internal/kit/decisions"
	"github.com/capstan-dev/capstan/internal/kit/questions"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
)

// deletion has the facts of a deletion in addition to the state.
type deletion struct {
	plan     machinedeletion.Plan
	workload client.Client // nil: not connected, or no Node to delete
	evicting time.Duration // spent on evictions
}

// delete executes the deletion of the Machine, as far as possible now.
func (r *Reconciler) delete(ctx context.Context, s *state) (ctrl.Result, error) {
	s.deletion.plan.Reason = clusterv1.MachineDeletingReason
	res, err := reconciler.InOrder(reconciler.Do("observe", r.lookAround), reconciler.Do("delete", r.planDeletion))(ctx, s)
	if p := &s.deletion.plan; err != nil && p.Reason == clusterv1.MachineDeletingReason {
		p.Reason, p.Message = clusterv1.MachineDeletingInternalErrorReason, err.Error()
	}
	return res, err
}

// lookAround lists the objects to delete.
func (r *Reconciler) lookAround(ctx context.Context, s *state) (reconciler.Next, error) {
	for _, ref := range []*provider.Reference{&s.bootstrapConfig, &s.infraMachine} {
		if !ref.Ref.IsDefined() {
			continue
		}
		if err := r.look(ctx, s, ref); err != nil && !ref.Gone() {
			return reconciler.Continue(), err
		}
	}
	var err error
	if s.deletion.workload, err = r.lookNode(ctx, s); err != nil {
		ctrl.LoggerFrom(ctx).V(2).Info("Looking for the Node to delete", "reason", err.Error()) // the plan decides whether the Node is needed
	}
	if s.seen.Node != nil {
		s.machine.Status.NodeRef.Name = s.seen.Node.Name // after the deletion of the infrastructure machine, no other field may identify the Node
	}
	return reconciler.Continue(), nil
}

// planDeletion plans the deletion, answers the questions of the plan, and copies its
// result to the state.
func (r *Reconciler) planDeletion(ctx context.Context, s *state) (reconciler.Next, error) {
	made, err := decisions.Make(ctx, machinedeletion.Planner, deletionFacts(s), func(q machinedeletion.Question) (machinedeletion.Answer, error) { return r.answer(ctx, s, q) })
	p := made.Plan
	s.deletion.plan, s.machine.Status.Deletion = p, p.Began
	for _, what := range p.Skipped {
		ctrl.LoggerFrom(ctx).V(2).Info("Skipping a step of the deletion", "step", what)
	}
	for _, e := range p.Events {
		r.event(s, e.Type, e.Reason, e.Action, "%s", e.Note)
	}
	switch {
	case err != nil:
		return reconciler.Continue(), err
	case p.Done:
		reconciler.RemoveFinalizers(s.machine, clusterv1.MachineFinalizer)
	}
	return reconciler.Wait(p.After), nil
}

func deletionFacts(s *state) machinedeletion.Facts {
	object := func(ref provider.Reference) machinedeletion.Object {
		return machinedeletion.Object{Name: ref.String(), Exists: ref.Obj != nil, Going: ref.Obj != nil && !ref.Obj.GetDeletionTimestamp().IsZero()}
	}
	return machinedeletion.Facts{
		Machine: s.machine, Cluster: s.cluster, Now: s.now,
		Node: s.seen.Node, NodeFailure: questions.Failed(s.nodeErr), Connected: s.deletion.workload != nil, Untried: s.untried,
		Infrastructure: object(s.infraMachine), Bootstrap: object(s.bootstrapConfig),
	}
}
