// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// Names sends the names of objects to reconcile, from a source outside the cluster,
// until ctx ends.
type Names func(ctx context.Context) <-chan types.NamespacedName

// Follow creates a source from names. The manager stops only after all of them have
// ended.
func Follow(mgr ctrl.Manager, names ...Names) (source.Source, error) {
	f := &follower{names: names}
	return source.Func(f.start), mgr.Add(f)
}

type follower struct {
	names   []Names
	running sync.WaitGroup
}

func (f *follower) start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	for _, names := range f.names {
		changed := names(ctx)
		f.running.Go(recovery.Func(ctx, func() {
			for name := range changed {
				queue.Add(reconcile.Request{NamespacedName: name})
			}
		}))
	}
	return nil
}

// Start implements manager.Runnable.
func (f *follower) Start(ctx context.Context) error {
	<-ctx.Done()
	f.running.Wait()
	return nil
}

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
