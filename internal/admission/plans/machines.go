// SPDX-License-Identifier: Apache-2.0

package plans

import (
	"context"
	"errors"
	"fmt"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/webhook"
	"github.com/capstan-dev/capstan/internal/pure/outcome"
	"github.com/capstan-dev/capstan/internal/pure/planguard"
)

// maxNamed is the number of Machines that a message names.
const maxNamed = 3

// guard returns the guard of a Cluster; nil if there is none that holds.
func (a *admission) guard(ctx context.Context, namespace, cluster string) (*planv1.PlanGuard, error) {
	if cluster == "" {
		return nil, nil
	}
	g := &planv1.PlanGuard{}
	err := a.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: cluster}, g)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the PlanGuard of Cluster %s: %w", cluster, err)
	case !planguard.Holds(g, a.now()):
		return nil, nil
	}
	return g, nil
}

// hold refuses a request, and records that in the guard. A plan starts with a dry run, so
// that is admitted until there is a plan.
func (a *admission) hold(ctx context.Context, g *planv1.PlanGuard, h planv1.Held, dryRun bool) webhook.Result {
	if dryRun && g.Spec.Plan == "" {
		return webhook.Result{}
	}
	h.At = metav1.NewTime(a.now())
	if !dryRun {
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			now := &planv1.PlanGuard{}
			if err := a.live.Get(ctx, client.ObjectKeyFromObject(g), now); err != nil {
				return err
			}
			commit := patch.Snapshot(a.live, now, patch.Locked)
			if !planguard.Hold(&now.Status, h) {
				return nil
			}
			return commit(ctx)
		})
		if client.IgnoreNotFound(err) != nil {
			ctrl.LoggerFrom(ctx).Error(err, "The refusal could not be recorded", "planguard", client.ObjectKeyFromObject(g), "kind", h.Kind, "name", h.Name)
		}
	}
	return webhook.Result{Forbidden: errors.New(planguard.Sentence(g, h))}
}

// moved reports whether clusterctl move deletes an object: nothing acts on that, because
// its finalizers have been removed.
func moved(obj metav1.Object) bool {
	_, marked := obj.GetAnnotations()[clusterctlv1.DeleteForMoveAnnotation]
	return marked && len(obj.GetFinalizers()) == 0
}

func (a *admission) deleteMachine(ctx context.Context, r webhook.Review[clusterv1.Machine]) (webhook.Result, error) {
	m := r.Old
	g, err := a.guard(ctx, m.Namespace, m.Spec.ClusterName)
	if err != nil || g == nil || moved(m) || planguard.Deletes(g, m, a.now()) {
		return webhook.Result{}, err
	}
	return a.hold(ctx, g, planv1.Held{Kind: "Machine", Name: m.Name, UID: m.UID, What: "deleted", User: r.User, Why: outcome.Cause(m)}, r.DryRun), nil
}

func (a *admission) updateMachine(ctx context.Context, r webhook.Review[clusterv1.Machine]) (webhook.Result, error) {
	m := r.Object
	g, err := a.guard(ctx, m.Namespace, m.Spec.ClusterName)
	if err != nil || g == nil || planguard.Updates(g, m, a.now()) {
		return webhook.Result{}, err
	}
	return a.hold(ctx, g, planv1.Held{Kind: "Machine", Name: m.Name, UID: m.UID, What: "updated in place", User: r.User, Why: outcome.Cause(m)}, r.DryRun), nil
}

// deleteInfrastructure admits the deletion of a Machine's infrastructure if that of the
// Machine was admitted.
func (a *admission) deleteInfrastructure(ctx context.Context, r webhook.Review[metav1.PartialObjectMetadata]) (webhook.Result, error) {
	obj := r.Old
	g, err := a.guard(ctx, obj.Namespace, obj.Labels[clusterv1.ClusterNameLabel])
	if err != nil || g == nil || moved(obj) {
		return webhook.Result{}, err
	}
	m := &clusterv1.Machine{}
	for _, ref := range obj.OwnerReferences {
		if ref.Kind != "Machine" {
			continue
		}
		m.Name, m.UID = ref.Name, ref.UID
		live := &clusterv1.Machine{}
		err := a.live.Get(ctx, client.ObjectKey{Namespace: obj.Namespace, Name: ref.Name}, live)
		switch {
		case client.IgnoreNotFound(err) != nil:
			return webhook.Result{}, fmt.Errorf("read Machine %s: %w", ref.Name, err)
		case err == nil && live.UID == ref.UID:
			m = live
		}
	}
	if !m.DeletionTimestamp.IsZero() || planguard.Deletes(g, m, a.now()) {
		return webhook.Result{}, nil
	}
	return a.hold(ctx, g, planv1.Held{Kind: obj.Kind, Name: obj.Name, UID: obj.UID, What: "deleted", User: r.User, Why: "infrastructure of Machine " + m.Name}, r.DryRun), nil
}

// deleteOwner admits the deletion of a Cluster or another owner of Machines if the plan
// deletes all of them: a deletion that has started cannot be undone.
func (a *admission) deleteOwner(kind string) func(context.Context, webhook.Review[metav1.PartialObjectMetadata]) (webhook.Result, error) {
	return func(ctx context.Context, r webhook.Review[metav1.PartialObjectMetadata]) (webhook.Result, error) {
		obj := r.Old
		cluster := obj.Labels[clusterv1.ClusterNameLabel]
		if kind == "Cluster" {
			cluster = obj.Name
		}
		g, err := a.guard(ctx, obj.Namespace, cluster)
		if err != nil || g == nil || moved(obj) {
			return webhook.Result{}, err
		}
		if kind == "MachinePool" && planguard.Writes(g, kind, obj.Namespace, obj.Name, a.now()) {
			return webhook.Result{}, nil
		}
		var all clusterv1.MachineList
		if err := a.live.List(ctx, &all, client.InNamespace(obj.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster}); err != nil {
			return webhook.Result{}, fmt.Errorf("list the Machines of Cluster %s: %w", cluster, err)
		}
		var kept []string
		for i := range all.Items {
			if m := &all.Items[i]; owns(kind, obj, m) && m.DeletionTimestamp.IsZero() && !planguard.Deletes(g, m, a.now()) {
				kept = append(kept, m.Name)
			}
		}
		if len(kept) == 0 && kind != "MachinePool" {
			return webhook.Result{}, nil
		}
		why := "with Machines " + strings.Join(kept[:min(len(kept), maxNamed)], ", ")
		if more := len(kept) - maxNamed; more > 0 {
			why += fmt.Sprintf(" and %d more", more)
		}
		if len(kept) == 0 {
			why = "with all its replicas"
		}
		return a.hold(ctx, g, planv1.Held{Kind: kind, Name: obj.Name, UID: obj.UID, What: "deleted", User: r.User, Why: why}, r.DryRun), nil
	}
}

// owns reports whether a Machine of the same Cluster is deleted with an object.
func owns(kind string, obj *metav1.PartialObjectMetadata, m *clusterv1.Machine) bool {
	switch kind {
	case "Cluster":
		return true
	case "MachineDeployment":
		return m.Labels[clusterv1.MachineDeploymentNameLabel] == obj.Name
	case "MachinePool":
		return m.Labels[clusterv1.MachinePoolNameLabel] == obj.Name
	}
	return metav1.IsControlledBy(m, obj)
}

func (a *admission) shrinkPool(ctx context.Context, r webhook.Review[clusterv1.MachinePool]) (webhook.Result, error) {
	p := r.Object
	g, err := a.guard(ctx, r.Namespace, p.Spec.ClusterName)
	if err != nil || g == nil {
		return webhook.Result{}, err
	}
	to := int32(0)
	if p.Spec.Replicas != nil {
		to = *p.Spec.Replicas
	}
	if planguard.Shrinks(g, r.Name, to, a.now()) {
		return webhook.Result{}, nil
	}
	return a.hold(ctx, g, planv1.Held{Kind: "MachinePool", Name: r.Name, UID: p.UID, What: fmt.Sprintf("scaled down to %d", to), User: r.User}, r.DryRun), nil
}

func (a *admission) scalePool(ctx context.Context, r webhook.Review[autoscalingv1.Scale]) (webhook.Result, error) {
	p := &clusterv1.MachinePool{}
	if err := a.live.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Name}, p); err != nil {
		return webhook.Result{}, client.IgnoreNotFound(err)
	}
	p.Spec.Replicas = &r.Object.Spec.Replicas
	return a.shrinkPool(ctx, webhook.Review[clusterv1.MachinePool]{Object: p, DryRun: r.DryRun, User: r.User, Namespace: r.Namespace, Name: r.Name})
}
