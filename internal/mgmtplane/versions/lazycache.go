// SPDX-License-Identifier: Apache-2.0

package versions

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
)

const (
	// cacheFill is how long the first reader waits for a cache to be filled, which
	// takes milliseconds. A watch that comes before is told to come again in a
	// second.
	cacheFill = time.Second
	// cachePeriod is how often it looks.
	cachePeriod = 10 * time.Millisecond
)

// lazyCache has a watch cache from the first list or watch on, which that and all
// others are served from. The rest goes to etcd, which is where a cache has it from.
//
// An API server makes a watch cache for each version that is served when a kind
// gets its first request, whichever that is for, and from then on each write is
// decoded, converted and kept once more for each. Who uses no old version need not
// pay for that.
type lazyCache struct {
	storage.Interface // etcd
	start             func() (storage.Interface, factory.DestroyFunc, error)

	cached atomic.Pointer[storage.Interface]

	mu    sync.Mutex // guards what follows, and that the cache starts once
	stop  factory.DestroyFunc
	ended bool
}

// cache returns the cache, and starts it if need be.
func (l *lazyCache) cache(ctx context.Context) (storage.Interface, error) {
	if c := l.cached.Load(); c != nil {
		return *c, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.cached.Load(); c != nil {
		return *c, nil
	}
	if l.ended {
		return nil, storage.NewInternalError(errors.New("the storage is closed"))
	}
	c, stop, err := l.start()
	if err != nil {
		return nil, err
	}
	l.stop = stop
	_ = wait.PollUntilContextTimeout(ctx, cachePeriod, cacheFill, true, func(context.Context) (bool, error) {
		return c.ReadinessCheck() == nil, nil
	})
	l.cached.Store(&c)
	return c, nil
}

func (l *lazyCache) destroy() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	if l.stop != nil {
		l.stop()
	}
}

// Watch implements storage.Interface.
func (l *lazyCache) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	c, err := l.cache(ctx)
	if err != nil {
		return nil, err
	}
	return c.Watch(ctx, key, o)
}

// GetList implements storage.Interface.
func (l *lazyCache) GetList(ctx context.Context, key string, o storage.ListOptions, list runtime.Object) error {
	c, err := l.cache(ctx)
	if err != nil {
		return err
	}
	return c.GetList(ctx, key, o, list)
}
