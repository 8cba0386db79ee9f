// SPDX-License-Identifier: Apache-2.0

package localmachine

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
)

// removals takes the machine of a LocalMachine away that has gone: with its
// finalizer there is none left, but users take finalizers away.
func (r *Reconciler) removals(c cache.Cache) source.Source {
	return source.Kind(c, &infrav1.LocalMachine{}, handler.TypedFuncs[*infrav1.LocalMachine, reconcile.Request]{
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*infrav1.LocalMachine], _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			r.gone(ctx, types.NamespacedName{Namespace: e.Object.Namespace, Name: e.Object.Labels[clusterv1.ClusterNameLabel]}, e.Object.UID)
		},
	})
}

// sweep takes the machines away that have gone while nobody was here to see
// it. It implements manager.Runnable; what fails is left for the next start.
func (r *Reconciler) sweep(ctx context.Context) error {
	kept, err := r.Backend.Kept()
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Looking for machines that nobody owns")
		return nil
	}
	wanted := map[string]map[types.UID]bool{} // by namespace
	for _, k := range kept {
		namespace := k.Cluster.Namespace
		if wanted[namespace] == nil {
			list := &infrav1.LocalMachineList{}
			if err := r.Live.List(ctx, list, client.InNamespace(namespace)); err != nil {
				ctrl.LoggerFrom(ctx).Error(err, "Looking for machines that nobody owns", "namespace", namespace)
				return nil
			}
			wanted[namespace] = map[types.UID]bool{}
			for _, lm := range list.Items {
				wanted[namespace][lm.UID] = true
			}
		}
		for _, uid := range k.Machines {
			if !wanted[namespace][uid] {
				r.gone(ctx, k.Cluster, uid)
			}
		}
	}
	return nil
}

func (r *Reconciler) gone(ctx context.Context, cluster types.NamespacedName, uid types.UID) {
	if err := r.Backend.DeleteMachine(ctx, cluster, uid); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Taking the machine of a LocalMachine away that has gone", "uid", uid)
	}
}
