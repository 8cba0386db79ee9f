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
	"github.com/capstan-dev/capstan/internal/kit/decisions"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/questions"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/extensionconfig"
	"github.com/capstan-dev/capstan/internal/pure/inplace"
	"github.com/capstan-dev/capstan/internal/pure/scaling"
)

// update calls an extension to update the Machine in place, and removes the marks
// of the update once it is complete: those of the Machine last, in the commit at
// the end, so that an interrupted update is requested again.
func (r *Reconciler) update(ctx context.Context, s *state) (reconciler.Next, error) {
	facts := inplace.Facts{Machine: s.machine, Infrastructure: s.infraMachine.Known(), Bootstrap: s.bootstrapConfig.Known()}
	if s.set != nil {
		facts.Blocked = scaling.UpdateBlocked(s.set)
	}
	made, err := decisions.Make(ctx, inplace.Planner, facts, func(q inplace.Question) (inplace.Reply, error) { return r.haveUpdated(ctx, s, q) })
	s.update = made.Plan
	if err != nil {
		return reconciler.Continue(), err
	}
	for _, a := range made.Answers {
		if a.Answer.Failure != nil {
			return reconciler.Continue(), a.Answer.Failure // it is tried again, less and less often
		}
	}
	if !s.update.Finish {
		return reconciler.RequeueAfter(s.update.Again), nil
	}
	if s.update.Updated {
		if err := errors.Join(r.unmark(ctx, &s.infraMachine), r.unmark(ctx, &s.bootstrapConfig)); err != nil {
			return reconciler.Continue(), err
		}
		ctrl.LoggerFrom(ctx).Info("Machine is updated in place")
		r.event(s, corev1.EventTypeNormal, "SuccessfulUpdate", "UpdateInPlace", "the extension has updated the Machine in place")
	}
	inplace.Finish(s.machine)
	return reconciler.Continue(), nil
}

// haveUpdated calls the extension. If the update is not complete, the reply
// contains the reason.
func (r *Reconciler) haveUpdated(ctx context.Context, s *state, q inplace.Question) (reply inplace.Reply, err error) {
	to := inplace.Machine{Machine: s.machine}
	if to.Infrastructure, err = r.latest(ctx, &s.infraMachine, q.Live); err != nil {
		return reply, err
	}
	if to.Bootstrap, err = r.latest(ctx, &s.bootstrapConfig, q.Live); err != nil {
		return reply, err
	}
	reply.Again, reply.Message, err = r.Extensions.UpdateMachine(ctx, to)
	_, reply.Final = errors.AsType[*extensionconfig.FailureError](err)
	reply.Failure = questions.Failed(err)
	return reply, nil
}

// latest returns the object behind a reference, if there is one; live reads it from
// the API server, and replaces the cached one.
func (r *Reconciler) latest(ctx context.Context, ref *provider.Reference, live bool) (*unstructured.Unstructured, error) {
	if ref.Obj == nil || !live {
		return ref.Known().Obj, nil
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(ref.Obj.GroupVersionKind())
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(ref.Obj), obj); err != nil {
		return nil, fmt.Errorf("get %s past the cache: %w", ref, err)
	}
	ref.Obj = &provider.Object{Unstructured: obj, Contract: ref.Obj.Contract} // with the mark to remove
	return obj, nil
}

// unmark removes the mark of an update from an object to which the Machine refers.
func (r *Reconciler) unmark(ctx context.Context, ref *provider.Reference) error {
	if ref.Obj == nil {
		return nil
	}
	changed := ref.Obj.DeepCopy()
	commit := patch.Snapshot(r.Mgmt, changed)
	inplace.Finish(changed)
	return commit(ctx)
}
