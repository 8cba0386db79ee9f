// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// backoff decides when a failed reconcile is retried: doubling, but no later than
// the reconcile requested. controller-runtime drops what a failed reconcile
// requests; settle passes it here instead, just before the queue calls When.
type backoff struct {
	workqueue.TypedRateLimiter[reconcile.Request]

	mu    sync.Mutex // guards asked and kept
	asked map[reconcile.Request]timer
	kept  map[reconcile.Request]bool
}

// timer is the requeue that a failed reconcile requests.
type timer struct {
	after time.Duration
	alone bool // the failure is permanent: there is nothing to retry
}

func newBackoff() *backoff {
	return &backoff{
		TypedRateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		asked:            map[reconcile.Request]timer{},
		kept:             map[reconcile.Request]bool{},
	}
}

// keep makes the queue's next Forget do nothing: a delayed reconcile has not
// succeeded either.
func (b *backoff) keep(req reconcile.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept[req] = true
}

// Forget implements workqueue.TypedRateLimiter.
func (b *backoff) Forget(req reconcile.Request) {
	b.mu.Lock()
	kept := b.kept[req]
	delete(b.kept, req)
	b.mu.Unlock()
	if !kept {
		b.TypedRateLimiter.Forget(req)
	}
}

func (b *backoff) ask(req reconcile.Request, t timer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked[req] = t
}

// When implements workqueue.TypedRateLimiter.
func (b *backoff) When(req reconcile.Request) time.Duration {
	b.mu.Lock()
	t, ok := b.asked[req]
	delete(b.asked, req)
	b.mu.Unlock()
	switch {
	case !ok:
		return b.TypedRateLimiter.When(req)
	case t.alone:
		return t.after
	}
	return min(t.after, b.TypedRateLimiter.When(req))
}

// retried is an error after which there is another reconcile, though it has a
// TerminalError in it: controller-runtime must not see that.
type retried struct{ err error }

// Error implements error.
func (r retried) Error() string { return r.err.Error() }

// onlyTerminal reports whether err, or each of the errors joined in it, is one
// that only a change of the object can help.
func onlyTerminal(err error) bool {
	return all(err, func(e error) bool {
		terminal, ok := e.(interface{ Is(error) bool })
		return ok && terminal.Is(reconcile.TerminalError(nil))
	})
}

// all reports whether is returns true for err or for one that it wraps; of joined
// errors, for each.
func all(err error, is func(error) bool) bool {
	if is(err) {
		return true
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			if !all(e, is) {
				return false
			}
		}
		return true
	}
	inner := errors.Unwrap(err)
	return inner != nil && all(inner, is)
}
