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

// conditioned is an object with a condition that reports whether it is paused.
type conditioned interface {
	client.Object
	conditions.Getter
}

// Removed calls do for each object that was deleted, to clean up what represents it
// outside: users can remove finalizers. asked reports whether the deletion was
// requested: not if the object only vanished from the cache, as when a backup is
// restored, nor if it was paused, or moved to another management cluster.
func Removed[T conditioned](c cache.Cache, obj T, do func(ctx context.Context, obj T, asked bool)) source.Source {
	return source.Kind(c, obj, handler.TypedFuncs[T, reconcile.Request]{
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[T], _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			do(ctx, e.Object, asked(e))
		},
	})
}

// asked reports whether the deletion was requested.
func asked[T conditioned](e event.TypedDeleteEvent[T]) bool {
	_, moved := e.Object.GetAnnotations()[clusterctlv1.DeleteForMoveAnnotation]
	return !e.DeleteStateUnknown && !moved && !e.Object.GetDeletionTimestamp().IsZero() && !conditions.IsTrue(e.Object, clusterv1.PausedCondition)
}
