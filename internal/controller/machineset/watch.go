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
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// ofLabel wakes the sets that name an object in a label.
func (r *Reconciler) ofLabel(label string) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) (out []reconcile.Request) {
		for _, set := range r.sets(ctx, obj, client.MatchingLabels{label: obj.GetName()}) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&set)})
		}
		return out
	}
}

// ofOrphan wakes the sets that would adopt a Machine.
func (r *Reconciler) ofOrphan(ctx context.Context, m client.Object) (out []reconcile.Request) {
	for _, set := range r.sets(ctx, m, client.MatchingLabels{clusterv1.ClusterNameLabel: m.GetLabels()[clusterv1.ClusterNameLabel]}) {
		selector, err := metav1.LabelSelectorAsSelector(&set.Spec.Selector)
		if err == nil && !selector.Empty() && selector.Matches(labels.Set(m.GetLabels())) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&set)})
		}
	}
	return out
}

func (r *Reconciler) sets(ctx context.Context, beside client.Object, which client.MatchingLabels) []clusterv1.MachineSet {
	var list clusterv1.MachineSetList
	if err := r.Mgmt.List(ctx, &list, client.InNamespace(beside.GetNamespace()), which); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing MachineSets to wake")
		return nil
	}
	return list.Items
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
