// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/phase"
	"github.com/capstan-dev/capstan/internal/kit/questions"
	"github.com/capstan-dev/capstan/internal/pure/extensions"
	"github.com/capstan-dev/capstan/internal/pure/inplace"
	"github.com/capstan-dev/capstan/internal/pure/scaling"
)

// update has an extension update the Machine in place, and takes the marks of
// that away once it is done: those of the Machine last, with all that is written
// at the end, so that what is interrupted is asked for again.
func (r *Reconciler) update(ctx context.Context, s *state) (phase.Next, error) {
	facts := inplace.Facts{Machine: s.machine, Infrastructure: s.infraMachine.Known(), Bootstrap: s.bootstrapConfig.Known()}
	if s.set != nil {
		facts.Blocked = scaling.UpdateBlocked(s.set)
	}
	made, err := inplace.Planner.Make(facts, func(q inplace.Question) (inplace.Reply, error) { return r.haveUpdated(ctx, s, q) })
	s.update = made.Plan
	if err != nil {
		return phase.Continue(), err
	}
	for _, a := range made.Answers {
		if a.Answer.Failure != nil {
			return phase.Continue(), a.Answer.Failure // it is tried again, less and less often
		}
	}
	if !s.update.Finish {
		return phase.LookAgain(s.update.Again), nil
	}
	if s.update.Updated {
		if err := errors.Join(r.unmark(ctx, &s.infraMachine), r.unmark(ctx, &s.bootstrapConfig)); err != nil {
			return phase.Continue(), err
		}
		ctrl.LoggerFrom(ctx).Info("Machine is updated in place")
		r.event(s, corev1.EventTypeNormal, "SuccessfulUpdate", "UpdateInPlace", "the extension has updated the Machine in place")
	}
	inplace.Finish(s.machine)
	return phase.Continue(), nil
}

// haveUpdated asks the extension. That it does not say yes is part of its reply.
func (r *Reconciler) haveUpdated(ctx context.Context, s *state, q inplace.Question) (reply inplace.Reply, err error) {
	to := inplace.Machine{Machine: s.machine}
	if to.Infrastructure, err = r.latest(ctx, &s.infraMachine, q.Live); err != nil {
		return reply, err
	}
	if to.Bootstrap, err = r.latest(ctx, &s.bootstrapConfig, q.Live); err != nil {
		return reply, err
	}
	reply.Again, reply.Message, err = r.Extensions.UpdateMachine(ctx, to)
	_, reply.Final = errors.AsType[*extensions.FailureError](err)
	reply.Failure = questions.Failed(err)
	return reply, nil
}

// latest is the object behind a reference, if there is one; live reads it past
// the cache, and puts it in the place of what that had.
func (r *Reconciler) latest(ctx context.Context, ref *provider.Reference, live bool) (*unstructured.Unstructured, error) {
	if ref.Obj == nil || !live {
		return ref.Known().Obj, nil
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(ref.Obj.GroupVersionKind())
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(ref.Obj), obj); err != nil {
		return nil, fmt.Errorf("get %s past the cache: %w", ref, err)
	}
	ref.Obj = &provider.Object{Unstructured: obj, Contract: ref.Obj.Contract} // with the mark that is to go
	return obj, nil
}

// unmark takes the mark of an update away from what the Machine refers to.
func (r *Reconciler) unmark(ctx context.Context, ref *provider.Reference) error {
	if ref.Obj == nil {
		return nil
	}
	changed := ref.Obj.DeepCopy()
	commit := patch.Remember(r.Mgmt, changed)
	inplace.Finish(changed)
	return commit(ctx)
}
