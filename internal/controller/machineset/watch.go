// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/index"
)

// ofCluster wakes the sets of a Cluster.
func (r *Reconciler) ofCluster(ctx context.Context, cluster client.Object) []reconcile.Request {
	return r.which(ctx, cluster, client.MatchingFields{index.ClusterName: cluster.GetName()}, nil)
}

// ofDeployment wakes the sets of a MachineDeployment.
func (r *Reconciler) ofDeployment(ctx context.Context, md client.Object) []reconcile.Request {
	return r.which(ctx, md, client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: md.GetName()}, nil)
}

// ofOrphan wakes the sets that would adopt a Machine.
func (r *Reconciler) ofOrphan(ctx context.Context, obj client.Object) []reconcile.Request {
	m := obj.(*clusterv1.Machine)
	return r.which(ctx, m, client.MatchingFields{index.ClusterName: m.Spec.ClusterName}, func(set *clusterv1.MachineSet) bool {
		selector, err := metav1.LabelSelectorAsSelector(&set.Spec.Selector)
		return err == nil && !selector.Empty() && selector.Matches(labels.Set(m.Labels))
	})
}

func (r *Reconciler) which(ctx context.Context, beside client.Object, listed client.ListOption, is func(*clusterv1.MachineSet) bool) (out []reconcile.Request) {
	var list clusterv1.MachineSetList
	if err := r.Mgmt.List(ctx, &list, client.InNamespace(beside.GetNamespace()), listed, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing MachineSets to wake")
		return nil
	}
	for i := range list.Items {
		if set := &list.Items[i]; is == nil || is(set) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(set)})
		}
	}
	return out
}

// isOrphan passes Machines that nobody controls.
func isOrphan() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(obj client.Object) bool {
		return metav1.GetControllerOfNoCopy(obj) == nil && obj.GetDeletionTimestamp().IsZero()
	})
}

// clusterMatters passes changes of a Cluster that a set looks at. The control
// plane object itself need not be watched: what the preflight checks read from
// it moves the counted versions, or initialization, of its Cluster.
func clusterMatters() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*clusterv1.Cluster), e.ObjectNew.(*clusterv1.Cluster)
		return !equality.Semantic.DeepEqual(regarded(before), regarded(after))
	}}
}

func regarded(c *clusterv1.Cluster) []any {
	out := []any{c.Spec.Paused, c.Spec.ControlPlaneRef, c.Spec.Topology.IsDefined(), c.Status.Initialization, c.DeletionTimestamp.IsZero()}
	if c.Status.ControlPlane != nil {
		out = append(out, c.Status.ControlPlane.Versions)
	}
	return out
}

// specMatters passes changes of a spec.
func specMatters() predicate.Predicate { return predicate.GenerationChangedPredicate{} }
