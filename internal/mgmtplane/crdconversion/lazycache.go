// SPDX-License-Identifier: Apache-2.0

package crdconversion

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

const (
	// cacheFill is how long the first reader waits for a cache to be filled, which
	// takes milliseconds. A watch before that is refused with a retry after one
	// second.
	cacheFill = time.Second
	// cachePeriod is the polling period of that wait.
	cachePeriod = 10 * time.Millisecond
	// cacheIdle is how long a cache stays without a reader: clients start another
	// watch when a watch has ended, after at most ten minutes, within seconds.
	cacheIdle = 5 * time.Minute
)

// lazyCache has a watch cache from the first list or watch on, which serves that
// and all others, until there was no reader for a while. Other requests are served
// by etcd, which is also the source of a cache.
//
// An API server creates a watch cache for each served version when a kind gets its
// first request, of any version, and from then on each write is decoded, converted
// and stored again for each. Clients that use no old version should not cause that
// cost.
type lazyCache struct {
	storage.Interface // etcd
	start             func() (storage.Interface, factory.DestroyFunc, error)
	// newList and key are those of the storage.
	newList func() runtime.Object
	key     func(runtime.Object) (string, error)

	mu      sync.Mutex // guards what follows, and that the cache starts once
	cached  storage.Interface
	stop    factory.DestroyFunc
	readers int
	idle    *time.Timer
	ended   bool
}

// enter returns the cache, and starts it if needed. Each caller must call leave.
func (l *lazyCache) enter(ctx context.Context) (storage.Interface, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return nil, storage.NewInternalError(errors.New("the storage is closed"))
	}
	if l.cached == nil {
		c, stop, err := l.start()
		if err != nil {
			return nil, err
		}
		l.cached, l.stop = c, stop
		_ = wait.PollUntilContextTimeout(ctx, cachePeriod, cacheFill, true, func(context.Context) (bool, error) {
			return c.ReadinessCheck() == nil, nil
		})
	}
	if l.idle != nil {
		l.idle.Stop()
	}
	l.readers++
	return l.cached, nil
}

func (l *lazyCache) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.readers--; l.readers == 0 && !l.ended {
		l.idle = time.AfterFunc(cacheIdle, recovery.Func(context.Background(), l.rest))
	}
}

// rest ends a cache without readers.
func (l *lazyCache) rest() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.readers == 0 && l.cached != nil {
		l.stop()
		l.cached = nil
	}
}

func (l *lazyCache) destroy() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	if l.idle != nil {
		l.idle.Stop()
	}
	if l.cached != nil {
		l.stop()
		l.cached = nil
	}
}

// Watch implements storage.Interface. Where a watch starts with the existing
// objects, all of them must be readable, as for a list.
func (l *lazyCache) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	c, err := l.enter(ctx)
	if err != nil {
		return nil, err
	}
	if o.ResourceVersion == "" || o.ResourceVersion == "0" || o.SendInitialEvents != nil && *o.SendInitialEvents {
		err = l.list(ctx, c, key, storage.ListOptions{ResourceVersion: "0", Predicate: o.Predicate, Recursive: o.Recursive}, l.newList())
	}
	var w watch.Interface
	if err == nil {
		w, err = c.Watch(ctx, key, o)
	}
	if err != nil {
		l.leave()
		return nil, err
	}
	return watchReadable(w, l.leave), nil
}

// GetList implements storage.Interface.
func (l *lazyCache) GetList(ctx context.Context, key string, o storage.ListOptions, list runtime.Object) error {
	c, err := l.enter(ctx)
	if err != nil {
		return err
	}
	defer l.leave()
	return l.list(ctx, c, key, o, list)
}
