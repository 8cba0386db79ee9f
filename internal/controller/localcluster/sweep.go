// SPDX-License-Identifier: Apache-2.0

package localcluster

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

	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
)

// removals deletes the infrastructure of a LocalCluster that has gone: with
// its finalizer there is none left, but users take finalizers away.
func (r *Reconciler) removals(c cache.Cache) source.Source {
	return source.Kind(c, &infrav1.LocalCluster{}, handler.TypedFuncs[*infrav1.LocalCluster, reconcile.Request]{
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*infrav1.LocalCluster], _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			r.gone(ctx, e.Object.UID)
		},
	})
}

// sweep deletes the infrastructure of what has gone while nobody was here to
// see it. It implements manager.Runnable; what fails is left for the next
// start.
func (r *Reconciler) sweep(ctx context.Context) error {
	kept, err := r.Backend.Kept()
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Looking for infrastructure that nobody owns")
		return nil
	}
	wanted := map[string]map[types.UID]bool{} // by namespace
	for _, k := range kept {
		namespace := k.Cluster.Namespace
		if wanted[namespace] == nil {
			list := &infrav1.LocalClusterList{}
			if err := r.Live.List(ctx, list, client.InNamespace(namespace)); err != nil {
				ctrl.LoggerFrom(ctx).Error(err, "Looking for infrastructure that nobody owns", "namespace", namespace)
				return nil
			}
			wanted[namespace] = map[types.UID]bool{}
			for _, lc := range list.Items {
				wanted[namespace][lc.UID] = true
			}
		}
		if !wanted[namespace][k.UID] {
			r.gone(ctx, k.UID)
		}
	}
	return nil
}

func (r *Reconciler) gone(ctx context.Context, uid types.UID) {
	if err := r.Backend.DeleteCluster(ctx, uid); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Deleting the infrastructure of a LocalCluster that has gone", "uid", uid)
	}
}
