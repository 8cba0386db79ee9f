// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/reference"
	"github.com/capstan-dev/capstan/internal/pure/scaling"
)

// preflight determines why no Machine can be created or updated in place now, if
// that might be necessary.
func (r *Reconciler) preflight(ctx context.Context, s *state) (reconciler.Next, error) {
	if !scaling.Needed(scaling.Counted(s.set, s.machines), s.orphans, s.want()) && len(scaling.ToUpdate(s.set, s.machines)) == 0 {
		return reconciler.Continue(), nil
	}
	facts := scaling.Creation{Set: s.set, Cluster: s.cluster}
	var failed error
	if len(facts.RuledOut()) == 0 {
		failed = r.look(ctx, s, &facts)
	}
	var err error
	s.blocked, err = facts.Blockers()
	return reconciler.Continue(), errors.Join(failed, err)
}

// look reads the objects that a creation depends on, and watches them.
func (r *Reconciler) look(ctx context.Context, s *state, facts *scaling.Creation) error {
	spec := s.set.Spec.Template.Spec
	bootstrap := provider.Reference{Ref: spec.Bootstrap.ConfigRef, Role: reference.Bootstrap, Field: "spec.template.spec.bootstrap.configRef"}
	infra := provider.Reference{Ref: spec.InfrastructureRef, Role: reference.MachineInfrastructure, Field: "spec.template.spec.infrastructureRef"}
	plane := provider.Reference{Ref: s.cluster.Spec.ControlPlaneRef, Role: reference.ControlPlane, Field: "spec.controlPlaneRef of the Cluster"}
	var errs []error
	for _, t := range []*provider.Reference{&bootstrap, &infra} {
		if t.Ref.IsDefined() {
			errs = append(errs, r.Providers.LookTemplate(ctx, s.cluster, t, provider.Trigger{Controller: name, Watcher: r.watcher, List: &clusterv1.MachineSetList{}}))
		}
	}
	if plane.Ref.IsDefined() {
		errs = append(errs, r.lookControlPlane(ctx, s, &plane))
	}
	s.bootstrapTemplate, s.infraTemplate = bootstrap.Obj, infra.Obj
	facts.Bootstrap, facts.Infrastructure, facts.ControlPlane = bootstrap.Known(), infra.Known(), plane.Known()
	if plane.Obj != nil {
		facts.Contract = plane.Obj.Contract
	}
	return errors.Join(errs...)
}

// lookControlPlane reads the control plane of the Cluster. If its kind cannot be
// used, it counts as not found: the Cluster reports details, and a change of its
// status triggers a reconcile.
func (r *Reconciler) lookControlPlane(ctx context.Context, s *state, plane *provider.Reference) error {
	err := r.Providers.Watch(ctx, plane.Ref, provider.Trigger{Controller: name, Watcher: r.watcher, To: r.ofControlPlane})
	if err == nil {
		plane.Obj, err = r.Providers.Get(ctx, s.set.Namespace, plane.Ref)
	}
	if _, isKind := errors.AsType[*provider.KindError](err); isKind || apierrors.IsNotFound(err) {
		plane.Missing, plane.Obj = true, nil
		return nil
	}
	return plane.Failed(err)
}
