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
	return owner.GetLabels()[clusterv1.ClusterNameLabel]
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
// carried out.
func (a *admission) validate(_ context.Context, r webhook.Review[planv1.PlanGuard]) (v webhook.Result, _ error) {
	spec, at := r.Object.Spec, field.NewPath("spec")
	if r.Old != nil {
		was := r.Old.Spec
		was.Required = spec.Required
		if was.Plan != "" && spec.Plan != "" && !equality.Semantic.DeepEqual(was, spec) {
			v.Errors = append(v.Errors, field.Forbidden(at, fmt.Sprintf("plan %s is being carried out: wait until it has ended, or end it with `capstan apply --release cluster/%s`", was.Plan, r.Name)))
			return v, nil
		}
		if equality.Semantic.DeepEqual(r.Old.Spec, spec) {
			return v, nil
		}
	}
	if spec.Plan == "" {
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

// release records who ends a plan before it has been carried out.
func (a *admission) release(ctx context.Context, r webhook.Review[planv1.PlanGuard]) (webhook.Result, error) {
	g := r.Old
	if r.DryRun || !planguard.Holds(g, a.now()) || g.Spec.Plan == "" {
		return webhook.Result{}, nil
	}
	now := metav1.NewTime(a.now())
	cluster := &clusterv1.Cluster{}
	if err := a.live.Get(ctx, client.ObjectKeyFromObject(g), cluster); err != nil {
		return webhook.Result{}, client.IgnoreNotFound(err)
	}
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: g.Name + "-released-", Namespace: g.Namespace},
		InvolvedObject: corev1.ObjectReference{APIVersion: clusterv1.GroupVersion().String(), Kind: "Cluster", Namespace: cluster.Namespace, Name: cluster.Name, UID: cluster.UID},
		Reason:         "PlanReleased", Message: fmt.Sprintf("%s ended plan %s before it was carried out: Machines that it does not have can be deleted", r.User, g.Spec.Plan),
		Type: corev1.EventTypeWarning, Source: corev1.EventSource{Component: "capstan"}, FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	err := a.live.Create(ctx, event)
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause): // it takes no event, and must not stay for that
		ctrl.LoggerFrom(ctx).Info("Plan released in a namespace that is being deleted", "planguard", client.ObjectKeyFromObject(g), "plan", g.Spec.Plan, "user", r.User)
	case err != nil:
		return webhook.Result{}, fmt.Errorf("record that %s ends plan %s: %w", r.User, g.Spec.Plan, err)
	}
	return webhook.Result{}, nil
}
