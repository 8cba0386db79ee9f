// SPDX-License-Identifier: Apache-2.0

// Package changes tells that objects of a management cluster have changed, for who
// reads them anew then, and else asks for nothing.
package changes

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Retry is how long a watch that ended, or could not begin, is left alone. Who may
// not watch is told that often that something may have changed.
const Retry = time.Second

// Watcher watches kinds of objects. Only New makes one.
type Watcher struct {
	mgmt client.WithWatch
	// run runs something until Stop.
	run     func(func(context.Context))
	stop    context.CancelFunc
	running sync.WaitGroup
	kinds   map[schema.GroupVersionKind]bool
	changed chan struct{}
}

// New returns a Watcher that watches nothing yet, and nothing any more once ctx or
// Stop ends it.
func New(ctx context.Context, mgmt client.WithWatch) *Watcher {
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

// Follow begins to watch objects of a kind, unless one of that kind is watched. It is
// not for several goroutines.
func (w *Watcher) Follow(gvk schema.GroupVersionKind, of ...client.ListOption) {
	if w.kinds[gvk] {
		return
	}
	w.kinds[gvk] = true
	w.run(func(ctx context.Context) { w.follow(ctx, gvk, of) })
}

// Changed is sent to after something has changed, or may have, since it was received
// from: many changes may be told of at once.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

func (w *Watcher) tell() {
	select {
	case w.changed <- struct{}{}:
	default: // it is known already
	}
}

// follow tells that objects of a kind have changed, or may have: a watch that begins
// has missed what was before it, and one that ended what comes after it.
func (w *Watcher) follow(ctx context.Context, gvk schema.GroupVersionKind, of []client.ListOption) {
	for ctx.Err() == nil {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if watching, err := w.mgmt.Watch(ctx, list, of...); err == nil {
			w.tell()
			w.pass(ctx, watching)
		}
		t := time.NewTimer(Retry)
		select {
		case <-t.C:
			w.tell()
		case <-ctx.Done():
			t.Stop()
		}
	}
}

// pass tells of each event of a watch until that ends.
func (w *Watcher) pass(ctx context.Context, watching watch.Interface) {
	defer watching.Stop()
	for {
		select {
		case _, ok := <-watching.ResultChan():
			if !ok {
				return
			}
			w.tell()
		case <-ctx.Done():
			return
		}
	}
}
