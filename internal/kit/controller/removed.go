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

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

// conditioned is an object that says by a condition whether it is paused.
type conditioned interface {
	client.Object
	conditions.Getter
}

// Removed calls do for each object that has been deleted, for what stands for
// it outside: users take finalizers away. It is not called for an object that
// was only lost sight of, as when a backup is restored, nor for one that was
// paused, as one that is moved elsewhere: nobody asked for their end.
func Removed[T conditioned](c cache.Cache, obj T, do func(context.Context, T)) source.Source {
	return source.Kind(c, obj, handler.TypedFuncs[T, reconcile.Request]{
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[T], _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if wanted(e) {
				do(ctx, e.Object)
			}
		},
	})
}

// wanted reports whether somebody asked for the end of what was deleted.
func wanted[T conditioned](e event.TypedDeleteEvent[T]) bool {
	return !e.DeleteStateUnknown && !e.Object.GetDeletionTimestamp().IsZero() && !conditions.IsTrue(e.Object, clusterv1.PausedCondition)
}
