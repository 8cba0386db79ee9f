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

// deleteInfrastructure admits the deletion of the infrastructure of a Machine or MachinePool
// if that of its owner was admitted.
func (a *admission) deleteInfrastructure(ctx context.Context, r webhook.Review[metav1.PartialObjectMetadata]) (webhook.Result, error) {
	obj := r.Old
	g, err := a.guard(ctx, obj.Namespace, obj.Labels[clusterv1.ClusterNameLabel])
	if err != nil || g == nil || moved(obj) {
		return webhook.Result{}, err
	}
	of := ""
	for _, ref := range obj.OwnerReferences {
		if ref.Kind != "Machine" && ref.Kind != "MachinePool" {
			continue
		}
		of = ref.Kind + " " + ref.Name
		if goes, err := a.goes(ctx, g, ref); goes || err != nil {
			return webhook.Result{}, err
		}
	}
	return a.hold(ctx, g, planv1.Held{Kind: obj.Kind, Name: obj.Name, UID: obj.UID, What: "deleted", User: r.User, Why: "infrastructure of " + of}, r.DryRun), nil
}

// goes reports whether a Machine or MachinePool is being deleted, or the plan deletes it.
func (a *admission) goes(ctx context.Context, g *planv1.PlanGuard, ref metav1.OwnerReference) (bool, error) {
	owner := &metav1.PartialObjectMetadata{}
	owner.SetGroupVersionKind(core(ref.Kind))
	if err := a.live.Get(ctx, client.ObjectKey{Namespace: g.Namespace, Name: ref.Name}, owner); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read %s %s: %w", ref.Kind, ref.Name, err)
	}
	if owner.UID != ref.UID { // it does not exist any longer
		owner.ObjectMeta = metav1.ObjectMeta{UID: ref.UID}
	}
	deletes := planguard.Deletes(g, &clusterv1.Machine{ObjectMeta: owner.ObjectMeta}, a.now())
	return deletes || !owner.DeletionTimestamp.IsZero() || ref.Kind == "MachinePool" && planguard.Shrinks(g, ref.Name, 0, a.now()), nil
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
		of := []client.ListOption{client.InNamespace(obj.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster}}
		var machines clusterv1.MachineList
		var pools clusterv1.MachinePoolList
		if err := a.live.List(ctx, &machines, of...); err != nil {
			return webhook.Result{}, fmt.Errorf("list the Machines of Cluster %s: %w", cluster, err)
		}
		if err := a.live.List(ctx, &pools, of...); err != nil && !meta.IsNoMatchError(err) {
			return webhook.Result{}, fmt.Errorf("list the MachinePools of Cluster %s: %w", cluster, err)
		}
		var kept []string
		for i := range machines.Items {
			if m := &machines.Items[i]; owns(kind, obj, m) && m.DeletionTimestamp.IsZero() && !planguard.Deletes(g, m, a.now()) {
				kept = append(kept, "Machine "+m.Name)
			}
		}
		for _, p := range pools.Items {
			if (kind == "Cluster" || p.UID == obj.UID) && p.DeletionTimestamp.IsZero() && !planguard.Shrinks(g, p.Name, 0, a.now()) {
				kept = append(kept, "all replicas of MachinePool "+p.Name)
			}
		}
		if len(kept) == 0 {
			return webhook.Result{}, nil
		}
		why := "with " + strings.Join(kept[:min(len(kept), maxNamed)], ", ")
		if more := len(kept) - maxNamed; more > 0 {
			why += fmt.Sprintf(" and %d more", more)
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
