// SPDX-License-Identifier: Apache-2.0

package plans

import (
	"context"
	"fmt"
	"strings"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/internal/kit/metadata"
	"github.com/capstan-dev/capstan/internal/kit/webhook"
	"github.com/capstan-dev/capstan/internal/pure/outcome"
	"github.com/capstan-dev/capstan/internal/pure/planguard"
)

// maxDeadline is the longest time that a plan can take: a guard that is forgotten must
// not hold a Cluster for ever.
const maxDeadline = 7 * 24 * time.Hour

// change admits a change that can replace Machines of a Cluster that requires plans if
// it is part of one. A dry run is admitted: a plan starts with one.
func (a *admission) change(kind string) func(context.Context, webhook.Review[unstructured.Unstructured]) (webhook.Result, error) {
	return func(ctx context.Context, r webhook.Review[unstructured.Unstructured]) (webhook.Result, error) {
		paths := planguard.Replaces(kind, outcome.Fields(r.Old, r.Object))
		if len(paths) == 0 || r.DryRun || !r.Object.GetDeletionTimestamp().IsZero() {
			return webhook.Result{}, nil
		}
		return a.planned(ctx, kind, r.Namespace, r.Name, planguard.ClusterOf(r.Object), paths)
	}
}

// scale is change for the subresource, of which only a smaller number is refused.
func (a *admission) scale(kind schema.GroupVersionKind) func(context.Context, webhook.Review[autoscalingv1.Scale]) (webhook.Result, error) {
	return func(ctx context.Context, r webhook.Review[autoscalingv1.Scale]) (webhook.Result, error) {
		if r.DryRun {
			return webhook.Result{}, nil
		}
		owner := &unstructured.Unstructured{}
		owner.SetGroupVersionKind(kind)
		if err := a.live.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Name}, owner); err != nil {
			return webhook.Result{}, client.IgnoreNotFound(err)
		}
		return a.planned(ctx, kind.Kind, r.Namespace, r.Name, planguard.ClusterOf(owner), []string{"spec.replicas"})
	}
}

func (a *admission) planned(ctx context.Context, kind, namespace, name, cluster string, paths []string) (v webhook.Result, err error) {
	g, err := a.guard(ctx, namespace, cluster)
	if err != nil || g == nil || !g.Spec.Required || planguard.Writes(g, kind, namespace, name, a.now()) {
		return v, err
	}
	v.Forbidden = fmt.Errorf("a change of %s can replace or delete Machines, and %s",
		strings.Join(paths[:min(len(paths), maxNamed)], ", "), planguard.Missing(g))
	return v, nil
}

// validate admits a guard that fits its Cluster. A plan does not change while it is
// carried out, and ends with its guard. Only where the Cluster requires plans, the guard
// stays without one, and holds everything: that is recorded too.
func (a *admission) validate(ctx context.Context, r webhook.Review[planv1.PlanGuard]) (v webhook.Result, err error) {
	spec, at, was := r.Object.Spec, field.NewPath("spec"), planv1.PlanGuardSpec{}
	if r.Old != nil {
		was = r.Old.Spec
	}
	if spec.Required != was.Required {
		if v.Errors, err = a.required(ctx, r, at.Child("required")); len(v.Errors) > 0 || err != nil {
			return v, err
		}
		was.Required = spec.Required
	}
	running := fmt.Sprintf("plan %s is being carried out: wait until it has ended, or end it with `capstan apply --release cluster/%s -n %s`", was.Plan, r.Name, r.Namespace)
	switch {
	case was.Plan != "" && !equality.Semantic.DeepEqual(r.Old.OwnerReferences, r.Object.OwnerReferences):
		v.Errors = append(v.Errors, field.Forbidden(field.NewPath("metadata", "ownerReferences"), running))
		return v, nil
	case r.Old != nil && equality.Semantic.DeepEqual(was, spec), was.Plan == "" && spec.Plan == "":
		return v, nil
	case was.Plan != "" && equality.Semantic.DeepEqual(spec, planv1.PlanGuardSpec{Required: true}):
		return v, a.ends(ctx, r)
	case was.Plan != "":
		v.Errors = append(v.Errors, field.Forbidden(at, running))
		return v, nil
	}
	switch c := spec.Cluster; {
	case c == nil:
		v.Errors = append(v.Errors, field.Required(at.Child("cluster"), "a plan says what it does to the Cluster"))
	case c.Name != r.Name || c.Namespace != r.Namespace:
		v.Errors = append(v.Errors, field.Invalid(at.Child("cluster"), c.Namespace+"/"+c.Name, "a PlanGuard has the name and the namespace of its Cluster"))
	case c.NotPredicted != nil:
		v.Errors = append(v.Errors, field.Forbidden(at.Child("cluster", "notPredicted"), "what is not predicted cannot be carried out under a guard"))
	}
	switch left := spec.Deadline.Sub(a.now()); {
	case left <= 0:
		v.Errors = append(v.Errors, field.Invalid(at.Child("deadline"), spec.Deadline.Time, "it has passed"))
	case left > maxDeadline:
		v.Errors = append(v.Errors, field.Invalid(at.Child("deadline"), spec.Deadline.Time, fmt.Sprintf("a plan can take at most %s", maxDeadline)))
	}
	return v, nil
}

// required refuses a guard that requires plans for a Cluster which does not, or the reverse.
func (a *admission) required(ctx context.Context, r webhook.Review[planv1.PlanGuard], at *field.Path) (all field.ErrorList, _ error) {
	cluster := &clusterv1.Cluster{}
	if err := a.live.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Name}, cluster); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if requires := cluster.Annotations[planv1.RequirePlanAnnotation] == "true"; requires != r.Object.Spec.Required {
		all = append(all, field.Invalid(at, r.Object.Spec.Required, fmt.Sprintf("it follows annotation %s of Cluster %s", planv1.RequirePlanAnnotation, r.Name)))
	}
	return all, nil
}

// release admits the deletion of a guard, which ends its plan.
func (a *admission) release(ctx context.Context, r webhook.Review[planv1.PlanGuard]) (webhook.Result, error) {
	return webhook.Result{}, a.ends(ctx, r)
}

// ends records who ends a plan before it has been carried out.
func (a *admission) ends(ctx context.Context, r webhook.Review[planv1.PlanGuard]) error {
	g := r.Old
	if r.DryRun || !planguard.Holds(g, a.now()) {
		return nil
	}
	now := metav1.NewTime(a.now())
	cluster := &clusterv1.Cluster{}
	if err := a.live.Get(ctx, client.ObjectKeyFromObject(g), cluster); err != nil {
		return client.IgnoreNotFound(err)
	}
	var machines clusterv1.MachineList
	if err := a.live.List(ctx, &machines, client.InNamespace(g.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: g.Name}); err != nil {
		return fmt.Errorf("list the Machines of Cluster %s: %w", g.Name, err)
	}
	note := fmt.Sprintf("%s ended plan %s before it was carried out: Machines that it does not have can be deleted", r.User, g.Spec.Plan)
	switch requires := g.Spec.Required && cluster.Annotations[planv1.RequirePlanAnnotation] == "true"; {
	case !planguard.Ended(g, func() []*clusterv1.Machine { return metadata.Pointers(machines.Items) }, now.Time):
		if g.Spec.Required {
			note = fmt.Sprintf("%s ended plan %s before it was carried out: no Machine can be deleted without another plan", r.User, g.Spec.Plan)
		}
	case requires && r.Object == nil:
		note = fmt.Sprintf("%s deleted the PlanGuard of a Cluster that requires plans: Machines can be deleted until the controller has created it again", r.User)
	default:
		return nil
	}
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: g.Name + "-released-", Namespace: g.Namespace},
		InvolvedObject: corev1.ObjectReference{APIVersion: clusterv1.GroupVersion().String(), Kind: "Cluster", Namespace: cluster.Namespace, Name: cluster.Name, UID: cluster.UID},
		Reason:         "PlanReleased", Message: note,
		Type: corev1.EventTypeWarning, Source: corev1.EventSource{Component: "capstan"}, FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	err := a.live.Create(ctx, event)
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause): // it takes no event, and must not stay for that
		ctrl.LoggerFrom(ctx).Info("Plan released in a namespace that is being deleted", "planguard", client.ObjectKeyFromObject(g), "plan", g.Spec.Plan, "user", r.User)
	case err != nil:
		return fmt.Errorf("record that %s ends plan %s: %w", r.User, g.Spec.Plan, err)
	}
	return nil
}
