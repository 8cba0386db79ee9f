// SPDX-License-Identifier: Apache-2.0

package references

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
)

// Retry is the delay before a watch that ended, or could not start, is started again. For
// a user without permission to watch, a possible change is reported at this interval.
const Retry = time.Second

// Watcher watches kinds of objects. Create it with New.
type Watcher struct {
	mgmt client.WithWatch
	// run runs something until Stop.
	run     func(func(context.Context))
	stop    context.CancelFunc
	running sync.WaitGroup
	kinds   map[schema.GroupVersionKind]bool
	changed chan struct{}
}

// NewWatcher returns a Watcher that watches nothing yet, and stops when ctx or Stop ends it.
func NewWatcher(ctx context.Context, mgmt client.WithWatch) *Watcher {
	ctx, stop := context.WithCancel(ctx)
	w := &Watcher{mgmt: mgmt, stop: stop, kinds: map[schema.GroupVersionKind]bool{}, changed: make(chan struct{}, 1)}
	w.run = func(f func(context.Context)) { w.running.Go(func() { f(ctx) }) }
	return w
}

// Stop ends all watches, and waits until they have ended.
func (w *Watcher) Stop() {
	w.stop()
	w.running.Wait()
}

// Follow starts to watch objects of a kind, unless that kind is watched already. It is
// not safe for concurrent use.
func (w *Watcher) Follow(gvk schema.GroupVersionKind, of ...client.ListOption) {
	if w.kinds[gvk] {
		return
	}
	w.kinds[gvk] = true
	w.run(func(ctx context.Context) { w.follow(ctx, gvk, of) })
}

// Changed returns a channel that receives a value after something has changed, or may
// have changed, since the last receive: one value may report many changes.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

func (w *Watcher) notify() {
	select {
	case w.changed <- struct{}{}:
	default: // a change is pending already
	}
}

// follow reports that objects of a kind have changed, or may have changed: a watch misses
// changes before it starts and after it ends.
func (w *Watcher) follow(ctx context.Context, gvk schema.GroupVersionKind, of []client.ListOption) {
	for ctx.Err() == nil {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if watching, err := w.mgmt.Watch(ctx, list, of...); err == nil {
			w.notify()
			w.pass(ctx, watching)
		}
		if lifecycle.Sleep(ctx, Retry) == nil {
			w.notify()
		}
	}
}

// pass reports each event of a watch until the watch ends.
func (w *Watcher) pass(ctx context.Context, watching watch.Interface) {
	defer watching.Stop()
	for {
		select {
		case _, ok := <-watching.ResultChan():
			if !ok {
				return
			}
			w.notify()
		case <-ctx.Done():
			return
		}
	}
}
