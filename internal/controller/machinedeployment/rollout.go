// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/decisions"
	"github.com/capstan-dev/capstan/internal/kit/metadata"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/reference"
	"github.com/capstan-dev/capstan/internal/pure/rollout"
)

// fieldOwner is the field manager of the controller's writes to MachineSets.
const fieldOwner = metadata.MachineDeployments

// prepare sets what every deployment has in addition to its finalizer, before the
// phases, and reports whether that must be stored first.
func (r *Reconciler) prepare(s *state) bool {
	md := s.deployment
	if s.cluster == nil || !md.DeletionTimestamp.IsZero() {
		return false
	}
	changed := owner.Label(md, md.Spec.ClusterName)
	return owner.Set(md, owner.OfCluster(s.cluster)) || changed
}

// ownTemplates makes the Cluster the owner of the templates, so that they are moved
// and deleted with it.
func (r *Reconciler) ownTemplates(ctx context.Context, s *state) (reconciler.Next, error) {
	if s.cluster == nil {
		return reconciler.Continue(), nil
	}
	spec := s.deployment.Spec.Template.Spec
	err := errors.Join(
		r.adoptTemplate(ctx, s, spec.Bootstrap.ConfigRef, reference.Bootstrap, "spec.template.spec.bootstrap.configRef"),
		r.adoptTemplate(ctx, s, spec.InfrastructureRef, reference.MachineInfrastructure, "spec.template.spec.infrastructureRef"))
	if len(s.blocked) > 0 && len(s.sets) == 0 && s.deployment.DeletionTimestamp.IsZero() && s.keepQuiet() {
		return reconciler.Wait(0), err
	}
	return reconciler.Continue(), err
}

// adopt adopts MachineSets that match and have no controller.
func (r *Reconciler) adopt(ctx context.Context, s *state) (reconciler.Next, error) {
	mine, err := owner.Controller(s.deployment, r.Mgmt)
	if err != nil {
		return reconciler.Continue(), err
	}
	errs := []error{owner.HealAll(ctx, r.Mgmt, s.sets, mine)}
	for _, set := range s.orphans {
		commit := patch.Snapshot(r.Mgmt, set)
		owner.Set(set, mine)
		errs = append(errs, commit(ctx))
	}
	if err := errors.Join(errs...); err != nil || len(s.orphans) > 0 {
		return reconciler.Wait(0), err // adopted sets change the facts: their event triggers a reconcile
	}
	return reconciler.Continue(), nil
}

// adoptTemplate makes the Cluster the owner of one template. A template that is not
// found, cannot be used, or belongs to another Cluster, blocks the rollout.
func (r *Reconciler) adoptTemplate(ctx context.Context, s *state, ref clusterv1.ContractVersionedObjectReference, role reference.Role, field string) error {
	if !ref.IsDefined() {
		return nil
	}
	t := provider.Reference{Ref: ref, Role: role, Field: field}
	err := r.Providers.LookTemplate(ctx, s.cluster, &t, provider.Trigger{Controller: name, Watcher: r.watcher, List: &clusterv1.MachineDeploymentList{}})
	if _, isKind := errors.AsType[*provider.KindError](err); isKind {
		s.unusable = errors.Join(s.unusable, err)
		err = nil
	}
	if err != nil {
		return err
	}
	if problem := t.Known().Problem(); problem != "" {
		s.blocked = append(s.blocked, problem)
		return nil
	}
	return r.Providers.Adopt(ctx, t.Obj, provider.Adoption{Claim: reference.ToShare(s.cluster)})
}

// rollOut executes the plan of package rollout.
func (r *Reconciler) rollOut(ctx context.Context, s *state) (reconciler.Next, error) {
	facts := rollout.Facts{
		Deployment: s.deployment,
		Now:        s.now,
		Blocked:    s.blocked,
		FieldOwner: fieldOwner,
	}
	for _, set := range s.sets {
		if err := patch.Record(ctx, r.Mgmt, r.Live, set, fieldOwner, rollout.Passed(s.deployment, set)); err != nil {
			return reconciler.Continue(), err
		}
		facts.Sets = append(facts.Sets, rollout.Counted(set, s.bySet[set.UID]))
	}
	if facts.Lacking() {
		facts.Name = r.Name(s.deployment.Name)
	}
	made, err := decisions.Make(ctx, rollout.Planner, facts, func(q rollout.Question) (rollout.Answer, error) { return r.canUpdate(ctx, s, facts, q) })
	plan, errs := made.Plan, []error{err}
	for _, a := range made.Answers {
		if a.Answer.Failure != nil {
			errs = append(errs, a.Answer.Failure) // the question is retried with a backoff
		}
	}
	s.blocked = append(s.blocked, plan.Undecided...)
	for _, a := range plan.Actions {
		ctrl.LoggerFrom(ctx).Info("Rolling out MachineDeployment", "action", a.String())
		if err := r.act(ctx, s, a); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", a, err))
		}
		if _, starts := a.(rollout.Create); starts {
			r.reportReplacement(s, made.Answers)
		}
	}
	if err := errors.Join(append(errs, s.unusable)...); err != nil {
		return reconciler.Continue(), err
	}
	if plan.Current != "" {
		metav1.SetMetaDataAnnotation(&s.deployment.ObjectMeta, clusterv1.RevisionAnnotation, plan.Revision)
	}
	if plan.RequeueAt.IsZero() {
		return reconciler.Continue(), nil
	}
	return reconciler.RequeueAfter(plan.RequeueAt.Sub(s.now)), nil
}

func (r *Reconciler) act(ctx context.Context, s *state, a rollout.Action) error {
	switch a := a.(type) {
	case rollout.Create:
		mine, err := owner.Controller(s.deployment, r.Mgmt)
		if err != nil {
			return err
		}
		a.Set.Finalizers = []string{clusterv1.MachineSetFinalizer}
		a.Set.OwnerReferences = []metav1.OwnerReference{mine}
		if err := r.Mgmt.Create(ctx, a.Set, client.FieldOwner(fieldOwner)); err != nil {
			r.Recorder.Eventf(s.deployment, nil, corev1.EventTypeWarning, "FailedCreate", "Create", "%s: %v", a, err)
			return err
		}
		r.Recorder.Eventf(s.deployment, a.Set, corev1.EventTypeNormal, "SuccessfulCreate", "Create", "%s", a)
		s.sets = append(s.sets, a.Set)
		return nil
	case rollout.Update:
		return r.update(ctx, s, a)
	case rollout.Delete:
		return r.deleteSet(ctx, s, metadata.Named(s.sets, a.Name), a.String())
	default:
		return fmt.Errorf("unknown action %T", a)
	}
}

func (r *Reconciler) update(ctx context.Context, s *state, a rollout.Update) error {
	set := metadata.Named(s.sets, a.Set.Name)
	commit := patch.Snapshot(r.Mgmt, set, patch.As(fieldOwner))
	set.Labels, set.Annotations, set.Spec = a.Set.Labels, a.Set.Annotations, a.Set.Spec
	if err := commit(ctx); err != nil {
		return err
	}
	if int(*set.Spec.Replicas) != a.From {
		r.Recorder.Eventf(s.deployment, set, corev1.EventTypeNormal, "SuccessfulScale", "Scale", "%s", a)
	}
	return nil
}

func (r *Reconciler) deleteSet(ctx context.Context, s *state, set *clusterv1.MachineSet, why string) error {
	if err := client.IgnoreNotFound(r.Mgmt.Delete(ctx, set, client.Preconditions{UID: new(set.UID)})); err != nil {
		return err
	}
	r.Recorder.Eventf(s.deployment, set, corev1.EventTypeNormal, "SuccessfulDelete", "Delete", "%s", why)
	return nil
}

// deleteSets deletes the MachineSets of a deployment that is being deleted, and
// then allows its deletion.
func (r *Reconciler) deleteSets(ctx context.Context, s *state) (reconciler.Next, error) {
	var errs []error
	for _, set := range s.sets {
		if set.DeletionTimestamp.IsZero() {
			errs = append(errs, r.deleteSet(ctx, s, set, "delete "+set.Name+": the MachineDeployment is being deleted"))
		}
	}
	if err := errors.Join(errs...); err != nil || len(s.sets) > 0 {
		return reconciler.Wait(0), err
	}
	reconciler.RemoveFinalizers(s.deployment, clusterv1.MachineDeploymentFinalizer)
	return reconciler.Continue(), nil
}
