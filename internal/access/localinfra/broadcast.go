// SPDX-License-Identifier: Apache-2.0

package localinfra

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// Hub sends the names of changed objects to its subscribers. Publish never blocks:
// a name that a subscriber has not read yet is kept once.
type Hub struct {
	pumps Owned

	mu     sync.Mutex // guards all below
	subs   map[*subscriber]bool
	closed bool
}

// Owned are goroutines that their owner waits for.
type Owned struct {
	mu      sync.Mutex // guards closed, and running against starting late
	closed  bool
	running sync.WaitGroup
}

// Start runs f, unless its owner has ended. A panic ends f alone.
func (o *Owned) Start(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.running.Go(recovery.Func(context.Background(), f))
	}
}

// End prevents further starts, and waits for the running goroutines.
func (o *Owned) End() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.running.Wait()
}

type subscriber struct {
	mu      sync.Mutex
	pending []types.NamespacedName
	queued  map[types.NamespacedName]bool
	wake    chan struct{} // holds one; full while there is something pending
	ended   chan struct{} // closed when the sending of names has ended
}

// Subscribe names what changes from now on, until ctx ends.
func (h *Hub) Subscribe(ctx context.Context) <-chan types.NamespacedName {
	out := make(chan types.NamespacedName)
	s := &subscriber{queued: map[types.NamespacedName]bool{}, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		close(out)
		return out
	}
	if h.subs == nil {
		h.subs = map[*subscriber]bool{}
	}
	h.subs[s] = true
	h.pumps.Start(func() {
		defer close(out)
		s.pump(ctx, out)
		h.mu.Lock()
		delete(h.subs, s)
		h.mu.Unlock()
	})
	return out
}

// Publish names one that changed.
func (h *Hub) Publish(e types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs {
		s.add(e)
	}
}

// Close ends all subscriptions.
func (h *Hub) Close() {
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		for s := range h.subs {
			close(s.ended)
		}
		h.subs = nil
	}
	h.mu.Unlock()
	h.pumps.End()
}

func (s *subscriber) add(e types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queued[e] {
		return
	}
	s.queued[e] = true
	s.pending = append(s.pending, e)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *subscriber) next() (types.NamespacedName, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending) == 0 {
		return types.NamespacedName{}, false
	}
	e := s.pending[0]
	s.pending = s.pending[1:]
	delete(s.queued, e)
	return e, true
}

func (s *subscriber) pump(ctx context.Context, out chan<- types.NamespacedName) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.ended:
			return
		case <-s.wake:
		}
		for e, ok := s.next(); ok; e, ok = s.next() {
			select {
			case out <- e:
			case <-s.ended:
				return
			case <-ctx.Done():
				return
			}
		}
	}
}
