// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// A reconcile whose writes the cache does not show yet is delayed by a quarter
	// of the time that has passed since, within these bounds. The watch event
	// usually arrives first.
	minCacheDelay = 10 * time.Millisecond
	maxCacheDelay = time.Second

	// liveReadAfter is how long to wait for the cache before reading from the API
	// server whether there is still something to wait for: an object may have been
	// deleted again without the cache ever showing it. A cache may lag for minutes
	// when the machine is overloaded, and acting on a stale cache creates
	// duplicates, so time alone never ends the wait.
	liveReadAfter = 5 * time.Second
)

// Client returns the manager's client for use in reconcilers. What a reconcile
// writes through it to a kind of this system, the next reconcile of the same
// object is sure to read back.
func Client(mgr ctrl.Manager) client.Client { return Recording(mgr.GetClient()) }

// Recording wraps a client as Client does.
func Recording(c client.Client) client.Client { return recordingClient{c} }

// written is one write that the cache has not shown yet.
type written struct {
	probe   client.Object // empty, of the kind written; only one reconcile of an object runs at a time
	key     client.ObjectKey
	version uint64 // 0 for a delete
	create  bool
	at      time.Time // of the write
	asked   time.Time // when the API server was last read; at first, at
}

// pending holds, for each object under reconcile, the writes of its last
// reconcile that the cache may not show yet.
type pending struct {
	cache client.Reader
	live  client.Reader // past the cache
	clock clock.PassiveClock

	mu     sync.Mutex // guards writes
	writes map[reconcile.Request][]written
}

func newPending(cache, live client.Reader, c clock.PassiveClock) *pending {
	return &pending{cache: cache, live: live, clock: c, writes: map[reconcile.Request][]written{}}
}

// wait returns how long to put a reconcile off because the cache does not show
// all writes of the last one yet; 0 when it does.
func (p *pending) wait(ctx context.Context, req reconcile.Request) time.Duration {
	p.mu.Lock()
	left := p.writes[req]
	delete(p.writes, req)
	p.mu.Unlock()
	for i := range left {
		w := &left[i]
		if p.shown(ctx, w) || p.gone(ctx, w) {
			continue
		}
		p.add(req, left[i:]...)
		return min(maxCacheDelay, max(minCacheDelay, p.clock.Now().Sub(w.at)/4))
	}
	return 0
}

func (p *pending) shown(ctx context.Context, w *written) bool {
	err := p.cache.Get(ctx, w.key, w.probe)
	switch {
	case apierrors.IsNotFound(err):
		return !w.create
	case err != nil:
		return true // the reconcile will meet the error itself
	case w.version == 0:
		return !w.probe.GetDeletionTimestamp().IsZero()
	}
	have, ok := version(w.probe)
	return !ok || have >= w.version
}

// gone reports whether the cache will never show a write: the created object was
// deleted again, or another one has replaced the deleted one. The API server is
// read only every liveReadAfter.
func (p *pending) gone(ctx context.Context, w *written) bool {
	now := p.clock.Now()
	if now.Sub(w.asked) < liveReadAfter {
		return false
	}
	w.asked = now
	err := p.live.Get(ctx, w.key, w.probe)
	if w.version == 0 {
		return err == nil && w.probe.GetDeletionTimestamp().IsZero()
	}
	return apierrors.IsNotFound(err)
}

func (p *pending) add(req reconcile.Request, w ...written) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes[req] = append(p.writes[req], w...)
}

type recorderKey struct{}

type recorder struct {
	pending *pending
	req     reconcile.Request
}

func (p *pending) recording(ctx context.Context, req reconcile.Request) context.Context {
	return context.WithValue(ctx, recorderKey{}, recorder{p, req})
}

// note records a write. Built-in kinds of Kubernetes are left out, and objects of
// which only the metadata is known: they are read live, not from the cache.
func note(ctx context.Context, c client.Client, obj client.Object, create, deleted bool) {
	r, ok := ctx.Value(recorderKey{}).(recorder)
	if _, partial := obj.(*metav1.PartialObjectMetadata); partial || !ok {
		return
	}
	gvk, err := apiutil.GVKForObject(obj, c.Scheme())
	if err != nil || !custom(gvk.Group) {
		return
	}
	w := written{probe: empty(c.Scheme(), obj), key: client.ObjectKeyFromObject(obj), create: create, at: r.pending.clock.Now()}
	w.asked = w.at
	if v, ok := version(obj); ok && !deleted {
		w.version = v
	}
	r.pending.add(r.req, w)
}

func version(obj client.Object) (uint64, bool) {
	v, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	return v, err == nil
}
