// SPDX-License-Identifier: Apache-2.0

package localmachine

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/simulated"
)

// ofMachine names the LocalMachine that a Machine refers to.
func ofMachine(_ context.Context, obj client.Object) []reconcile.Request {
	ref := obj.(*clusterv1.Machine).Spec.InfrastructureRef
	if ref.APIGroup != infrav1.GroupVersion.Group || ref.Kind != "LocalMachine" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: ref.Name}}}
}

// machineMatters drops the changes of a Machine that its LocalMachine does not
// care for.
func machineMatters() predicate.Predicate {
	type view struct{ data, failureDomain string }
	of := func(o client.Object) view {
		m := o.(*clusterv1.Machine)
		v := view{failureDomain: m.Spec.FailureDomain}
		if m.Spec.Bootstrap.DataSecretName != nil {
			v.data = *m.Spec.Bootstrap.DataSecretName
		}
		return v
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return of(e.ObjectOld) != of(e.ObjectNew) }}
}

// ofCluster names the LocalMachines of a Cluster.
func (r *Reconciler) ofCluster(ctx context.Context, cluster client.Object) (out []reconcile.Request) {
	var list infrav1.LocalMachineList
	err := r.Mgmt.List(ctx, &list, client.InNamespace(cluster.GetNamespace()), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.GetName()})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Finding the LocalMachines to wake")
		return nil
	}
	for i := range list.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return out
}

// clusterMatters drops the changes of a Cluster that no LocalMachine cares for.
func clusterMatters() predicate.Predicate {
	type view struct{ paused, infrastructure, controlPlane bool }
	of := func(o client.Object) view {
		c := o.(*clusterv1.Cluster)
		i := c.Status.Initialization
		return view{ptr.Deref(c.Spec.Paused, false), ptr.Deref(i.InfrastructureProvisioned, false), ptr.Deref(i.ControlPlaneInitialized, false)}
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return of(e.ObjectOld) != of(e.ObjectNew) }}
}

// followBackend wakes the LocalMachines that the backend tells of.
func (r *Reconciler) followBackend(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	told := r.Backend.Events(ctx)
	go func() { // ends with ctx, which ends the events
		for ev := range told {
			if ev.Kind == simulated.MachineChanged {
				queue.Add(reconcile.Request{NamespacedName: ev.NamespacedName})
			}
		}
	}()
	return nil
}
