// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"context"

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

// ofCluster wakes the deployments of a Cluster.
func (r *Reconciler) ofCluster(ctx context.Context, cluster client.Object) []reconcile.Request {
	return r.which(ctx, cluster, cluster.GetName(), nil)
}

// ofOrphan wakes the deployments that would adopt a MachineSet.
func (r *Reconciler) ofOrphan(ctx context.Context, obj client.Object) []reconcile.Request {
	set := obj.(*clusterv1.MachineSet)
	return r.which(ctx, set, set.Spec.ClusterName, func(md *clusterv1.MachineDeployment) bool {
		selector, err := metav1.LabelSelectorAsSelector(&md.Spec.Selector)
		return err == nil && !selector.Empty() && selector.Matches(labels.Set(set.Labels))
	})
}

func (r *Reconciler) which(ctx context.Context, beside client.Object, cluster string, is func(*clusterv1.MachineDeployment) bool) (out []reconcile.Request) {
	var list clusterv1.MachineDeploymentList
	if err := r.Mgmt.List(ctx, &list, client.InNamespace(beside.GetNamespace()), client.MatchingFields{index.ClusterName: cluster}, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing MachineDeployments to wake")
		return nil
	}
	for i := range list.Items {
		if md := &list.Items[i]; is == nil || is(md) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(md)})
		}
	}
	return out
}

// isOrphan passes MachineSets that nobody controls.
func isOrphan() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(obj client.Object) bool {
		return metav1.GetControllerOfNoCopy(obj) == nil && obj.GetDeletionTimestamp().IsZero()
	})
}

// clusterMatters passes what a deployment looks at of its Cluster: that it is
// there, and whether it is paused.
func clusterMatters() predicate.Predicate {
	isPaused := func(obj client.Object) bool {
		p := obj.(*clusterv1.Cluster).Spec.Paused
		return p != nil && *p
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return isPaused(e.ObjectOld) != isPaused(e.ObjectNew)
	}}
}
