// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/internal/access/machines"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/controlplane"
	"github.com/capstan-dev/capstan/internal/kit/decisions"
	"github.com/capstan-dev/capstan/internal/kit/metadata"
	"github.com/capstan-dev/capstan/internal/kit/questions"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/inplace"
)

// plan decides on the one change of machines that is due. If it cannot be
// determined, the reason is in the plan, and returned as an error, so that the
// question is retried with a backoff.
func (r *Reconciler) plan(ctx context.Context, s *state) error {
	made, err := decisions.Make(ctx, controlplane.Planner, s.Facts, func(q controlplane.Question) (controlplane.Reply, error) {
		return r.canUpdate(ctx, s, q)
	})
	s.Action, s.Blocked = made.Plan.Action, made.Plan.Blocked
	for _, a := range made.Answers {
		switch _, goes := s.Action.(controlplane.Delete); {
		case a.Answer.Failure != nil:
			err = errors.Join(err, a.Answer.Failure)
		case goes && a.Answer.Why != "" && len(s.Blocked) == 0:
			r.event(s, nil, corev1.EventTypeNormal, "NotUpdatedInPlace", "RollOut", fmt.Sprintf("Machine %s is replaced: %s", a.Question.Machine, a.Answer.Why))
		}
	}
	return err
}

// canUpdate returns whether an update in place can change a machine to the spec.
func (r *Reconciler) canUpdate(ctx context.Context, s *state, q controlplane.Question) (a controlplane.Reply, _ error) {
	m := metadata.Named(s.Machines, q.Machine)
	if !r.Extensions.Asked(ctx, hooksv1.CanUpdateMachine, m.Machine) {
		return a, nil
	}
	change, err := s.change(m)
	if err == nil {
		var from, to inplace.Machine
		from, to, err = r.factory().Sides(ctx, m.Machine, change)
		if err == nil {
			err = s.reaches(to)
		}
		if err == nil {
			a.Answer, err = r.Extensions.CanUpdateMachine(ctx, from, to)
		}
	}
	if refused, is := errors.AsType[*machines.RefusedError](err); is {
		a.Why = refused.Error()
		return a, nil
	}
	a.Failure = questions.Failed(err)
	return a, nil
}

// reaches returns why a machine would not match the spec even after an update in
// place: fields of other owners in its bootstrap config stay, so it would be
// outdated again immediately.
func (s *state) reaches(to inplace.Machine) error {
	var config bootstrapv1.KubeadmConfig
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(to.Bootstrap.Object, &config); err != nil {
		return err
	}
	if !controlplane.SameConfig(s.ControlPlane, config.Spec) {
		return &machines.RefusedError{Err: fmt.Errorf("KubeadmConfig %s has fields in its spec that another manager set, and that would stay", config.Name)}
	}
	return nil
}

// change returns the desired state of a machine.
func (s *state) change(m *controlplane.Machine) (machines.Change, error) {
	if s.template == nil || m.Config == nil {
		return machines.Change{}, &machines.RefusedError{Err: errors.New("its previous or its desired template was not found")}
	}
	change, err := machines.Fresh(controlplane.TemplateOf(s.ControlPlane, s.Cluster.Name, m.Machine), m.Name, s.template, nil)
	if err != nil {
		return change, err
	}
	config := &bootstrapv1.KubeadmConfig{Spec: controlplane.ConfigInPlace(s.ControlPlane, m.Config.Spec)}
	change.Bootstrap = &unstructured.Unstructured{}
	if change.Bootstrap.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(config); err != nil {
		return change, err
	}
	change.Bootstrap.SetGroupVersionKind(bootstrapv1.GroupVersion().WithKind(configKind.Kind))
	return change, nil
}

// update starts the update of a machine in place: once marked, it counts as not up
// to date, and no other machine is changed.
func (r *Reconciler) update(ctx context.Context, s *state, a controlplane.Update) error {
	m := a.Machine
	change, err := s.change(m)
	if err != nil {
		return err
	}
	if err := s.commitNow(ctx, m); err != nil { // the next step writes another version of it
		return err
	}
	if !inplace.InProgress(m) {
		if err := r.factory().Mark(ctx, m.Machine); err != nil {
			return err
		}
	}
	if err := r.factory().Update(ctx, m.Machine, change); err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Updating Machine in place", "Machine", m.Name, "reason", a.Why)
	r.event(s, m.Machine, corev1.EventTypeNormal, "UpdateStarted", "UpdateInPlace", a.String())
	return nil
}

// synchronise copies what may change in place to the machines, and labels and
// annotations also to the objects to which they refer. The machines are written
// with the other changes, at the end.
func (r *Reconciler) synchronise(ctx context.Context, s *state) (reconciler.Next, error) {
	next := reconciler.Continue()
	var errs []error
	for _, m := range s.Machines {
		t := controlplane.TemplateOf(s.ControlPlane, s.Cluster.Name, m.Machine)
		err := r.factory().Prepare(ctx, m.Machine, t)
		if _, unusable := errors.AsType[*provider.KindError](err); unusable {
			// The machine is skipped, and retried: CRDs are not watched. It must
			// not prevent the update of the others.
			next = reconciler.RequeueAfter(repairInterval)
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("Machine %s: %w", m.Name, err))
		}
	}
	return next, errors.Join(errs...)
}
