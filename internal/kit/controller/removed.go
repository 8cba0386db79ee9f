// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

// conditioned is an object that says by a condition whether it is paused.
type conditioned interface {
	client.Object
	conditions.Getter
}

// Removed calls do for each object that has gone, for what stands for it outside:
// users take finalizers away. asked tells whether somebody asked for its end: not
// of an object that was only lost sight of, as when a backup is restored, nor of
// one that was paused, or that is moved elsewhere.
func Removed[T conditioned](c cache.Cache, obj T, do func(ctx context.Context, obj T, asked bool)) source.Source {
	return source.Kind(c, obj, handler.TypedFuncs[T, reconcile.Request]{
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[T], _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			do(ctx, e.Object, asked(e))
		},
	})
}

// asked reports whether somebody asked for the end of what was deleted.
func asked[T conditioned](e event.TypedDeleteEvent[T]) bool {
	_, moved := e.Object.GetAnnotations()[clusterctlv1.DeleteForMoveAnnotation]
	return !e.DeleteStateUnknown && !moved && !e.Object.GetDeletionTimestamp().IsZero() && !conditions.IsTrue(e.Object, clusterv1.PausedCondition)
}
