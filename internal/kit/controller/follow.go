// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

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
