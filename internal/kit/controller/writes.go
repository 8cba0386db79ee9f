// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// cacheDelay is how long a reconcile is put off when the cache lags; the
	// watch event usually comes first.
	cacheDelay = 10 * time.Millisecond

	// patience is how long a write is waited for. After that the cache is
	// taken as it is: the object may have gone again unseen.
	patience = 5 * time.Second
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
	until   time.Time
}

// pending holds, for each object under reconcile, the writes of its last
// reconcile that the cache may not show yet.
type pending struct {
	cache client.Reader
	clock clock.PassiveClock

	mu     sync.Mutex // guards writes
	writes map[reconcile.Request][]written
}

func newPending(cache client.Reader, c clock.PassiveClock) *pending {
	return &pending{cache: cache, clock: c, writes: map[reconcile.Request][]written{}}
}

// seen reports whether the cache shows all writes of the last reconcile.
func (p *pending) seen(ctx context.Context, req reconcile.Request) bool {
	p.mu.Lock()
	left := p.writes[req]
	delete(p.writes, req)
	p.mu.Unlock()
	for i, w := range left {
		if !p.shown(ctx, w) {
			p.add(req, left[i:]...)
			return false
		}
	}
	return true
}

func (p *pending) shown(ctx context.Context, w written) bool {
	if !p.clock.Now().Before(w.until) {
		return true
	}
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

// note remembers a write. Kinds of Kubernetes itself are left out: they are
// read live, not from the cache.
func note(ctx context.Context, c client.Client, obj client.Object, create, deleted bool) {
	r, ok := ctx.Value(recorderKey{}).(recorder)
	if !ok {
		return
	}
	gvk, err := apiutil.GVKForObject(obj, c.Scheme())
	if err != nil || !custom(gvk.Group) {
		return
	}
	w := written{probe: empty(obj), key: client.ObjectKeyFromObject(obj), create: create, until: r.pending.clock.Now().Add(patience)}
	if v, ok := version(obj); ok && !deleted {
		w.version = v
	}
	r.pending.add(r.req, w)
}

func version(obj client.Object) (uint64, bool) {
	v, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	return v, err == nil
}
