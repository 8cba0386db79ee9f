// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"reflect"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// subscribers are the controllers that events of workload clusters trigger. The
// zero value has none.
type subscribers struct {
	mu     sync.RWMutex                  // guards byKind
	byKind map[reflect.Type][]subscriber // a nil type represents changes of connections
}

type subscriber struct {
	ctx        context.Context // of the controller that subscribed
	toRequests ToRequests
	queue      workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// Source implements Clusters.
func (c *Cache) Source(obj client.Object, toRequests ToRequests) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		c.subscribers.add(reflect.TypeOf(obj), subscriber{ctx, toRequests, queue})
		return nil
	})
}

func (s *subscribers) add(kind reflect.Type, sub subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKind == nil {
		s.byKind = map[reflect.Type][]subscriber{}
	}
	s.byKind[kind] = append(s.byKind[kind], sub)
}

// notify triggers the subscribers to the kind of obj; nil is the connection.
func (s *subscribers) notify(cluster client.ObjectKey, obj client.Object) {
	s.mu.RLock()
	subs := s.byKind[reflect.TypeOf(obj)] // append never changes what is already in a slice
	s.mu.RUnlock()
	for _, sub := range subs {
		for _, req := range sub.toRequests(sub.ctx, cluster, obj) {
			sub.queue.Add(req)
		}
	}
}
