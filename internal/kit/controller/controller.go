// SPDX-License-Identifier: Apache-2.0

// Package controller registers reconcilers. It is the only way to do so: every
// controller gets the same logger, metrics, handling of conflicts, and the
// promise that a reconcile sees what the one before it wrote.
package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/decisions"
	"github.com/capstan-dev/capstan/internal/kit/patch"
)

const (
	// defaultConcurrency is how many objects of one kind are reconciled at
	// once. A reconcile mostly waits for the API server, so this is more than
	// there are cores, and little enough not to flood it.
	defaultConcurrency = 16

	// A failing reconcile is retried from firstRetry, doubling, to lastRetry: most
	// failures are over in a moment, and after a user fixes a problem the reconcile
	// is retried soon.
	firstRetry = 20 * time.Millisecond
	lastRetry  = time.Minute

	// reconcileTimeout ends a reconcile that hangs on something outside.
	reconcileTimeout = time.Minute
)

// Builder declares one controller. Make it with For.
type Builder[T client.Object] struct {
	mgr         ctrl.Manager
	name        string
	obj         T
	build       *builder.Builder
	concurrency int
	pace        time.Duration
	unfiltered  bool
	invalid     error // of the declaration
}

// For starts the declaration of the controller called name for objects of the
// type of obj.
func For[T client.Object](mgr ctrl.Manager, name string, obj T, preds ...predicate.Predicate) *Builder[T] {
	b := ctrl.NewControllerManagedBy(mgr).Named(name).
		For(obj, builder.WithPredicates(append(preds, Changed())...))
	return &Builder[T]{mgr: mgr, name: name, obj: obj, build: b, concurrency: defaultConcurrency}
}

// Owns enqueues the controller-owner of an object of this type, for any version in
// its reference: controller-runtime looks up the version at the API server, and
// enqueues nothing where it is no longer served.
func (b *Builder[T]) Owns(obj client.Object) *Builder[T] {
	gvk, err := apiutil.GVKForObject(b.obj, b.mgr.GetScheme())
	if err != nil {
		b.invalid = err
		return b
	}
	return b.Watches(obj, func(_ context.Context, obj client.Object) []reconcile.Request {
		return Controlled(obj, gvk.GroupKind())
	})
}

// Watches enqueues the requests that toRequests returns for an object.
func (b *Builder[T]) Watches(obj client.Object, toRequests handler.MapFunc, preds ...predicate.Predicate) *Builder[T] {
	b.build.Watches(obj, handler.EnqueueRequestsFromMapFunc(toRequests), builder.WithPredicates(append(preds, Changed())...))
	return b
}

// WatchesSource enqueues requests from a source outside the management cluster.
func (b *Builder[T]) WatchesSource(src source.Source) *Builder[T] {
	b.build.WatchesRawSource(src)
	return b
}

// Concurrency sets how many objects are reconciled in parallel.
func (b *Builder[T]) Concurrency(n int) *Builder[T] {
	b.concurrency = n
	return b
}

// Pace sets the least time d between the starts of two reconciles of one object:
// one reconcile handles all events in between. It is for controllers that read a
// lot in each reconcile, and are triggered often.
func (b *Builder[T]) Pace(d time.Duration) *Builder[T] {
	b.pace = d
	return b
}

// Unfiltered reconciles all objects, also those without the watch label of the
// manager: objects of a kind that all managers share have none.
func (b *Builder[T]) Unfiltered() *Builder[T] {
	b.unfiltered = true
	return b
}

// Complete registers the controller.
func (b *Builder[T]) Complete(r reconcile.ObjectReconciler[T]) error {
	_, err := b.Build(r)
	return err
}

// Build registers the controller and returns it, for callers that add watches
// later. A reconciler that caches values of objects has a method Forget, which is
// called when an object has been deleted.
func (b *Builder[T]) Build(r reconcile.ObjectReconciler[T]) (ctrlcontroller.Controller, error) {
	if b.invalid != nil {
		return nil, fmt.Errorf("controller %s: %w", b.name, b.invalid)
	}
	w := newRunner(b.name, b.obj, r, newPending(b.mgr.GetClient(), b.mgr.GetAPIReader(), clock.RealClock{}))
	w.finishing = finishing(b.mgr)
	w.pace.every = b.pace
	w.recorder = Recorder(b.mgr, b.name)
	if !b.unfiltered {
		w.filter = watchFilter(b.mgr)
	}
	c, err := b.build.WithOptions(ctrlcontroller.Options{
		MaxConcurrentReconciles: b.concurrency,
		// controller-runtime's own queue can lock up at shutdown when many objects
		// are waiting, and block the shutdown of the manager, until a release has
		// the fix of its issue 3538.
		UsePriorityQueue:      new(false),
		NewQueue:              newQueue(clock.RealClock{}),
		ReconciliationTimeout: reconcileTimeout,
		RateLimiter:           w.backoff,
	}).Build(w)
	if err != nil {
		return nil, fmt.Errorf("controller %s: %w", b.name, err)
	}
	return c, nil
}

// forgetting is the method Forget of a reconciler, if it has one.
func forgetting(r any) func(client.ObjectKey) {
	if f, ok := r.(interface{ Forget(client.ObjectKey) }); ok {
		return f.Forget
	}
	return func(client.ObjectKey) {}
}

// watchFilter returns the watch label value of a manager that has one, as
// app/manager's does.
func watchFilter(mgr ctrl.Manager) string {
	if f, ok := mgr.(interface{ WatchFilter() string }); ok {
		return f.WatchFilter()
	}
	return ""
}

// finishing reports whether the manager handles only deletions: the feature of the
// controller is turned off, and its objects have finalizers.
func finishing(mgr ctrl.Manager) bool {
	f, ok := mgr.(interface{ Finishing() bool })
	return ok && f.Finishing()
}

// Ours returns a function that reports whether the controllers of a manager
// reconcile an object.
func Ours(mgr ctrl.Manager) func(client.Object) bool {
	filter := watchFilter(mgr)
	return func(obj client.Object) bool { return filter == "" || obj.GetLabels()[clusterv1.WatchLabel] == filter }
}

// runner is the layer between controller-runtime and a reconciler.
type runner[T client.Object] struct {
	name      string
	filter    string // of the label cluster.x-k8s.io/watch-filter; "" takes every object
	finishing bool   // takes only objects that are being deleted
	mgmt      client.Reader
	inner     reconcile.ObjectReconciler[T]
	make      func() T
	pending   *pending
	pace      pace
	retries   workqueue.TypedRateLimiter[reconcile.Request] // of conflicts
	backoff   *backoff                                      // of failures
	forget    func(client.ObjectKey)
	recorder  events.EventRecorder // of writes that the API rejects; nil without a manager
}

func newRunner[T client.Object](name string, obj T, r reconcile.ObjectReconciler[T], p *pending) *runner[T] {
	return &runner[T]{
		name:    name,
		mgmt:    p.cache,
		inner:   r,
		make:    func() T { return obj.DeepCopyObject().(T) },
		pending: p,
		retries: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, time.Second),
		backoff: newBackoff(),
		forget:  forgetting(r),
	}
}

// Reconcile implements reconcile.Reconciler.
func (w *runner[T]) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	started := time.Now()
	if after := w.wait(ctx, req); after > 0 {
		w.backoff.keep(req)
		return reconcile.Result{RequeueAfter: after}, nil
	}
	obj := w.make()
	if err := w.mgmt.Get(ctx, req.NamespacedName, obj); err != nil {
		if apierrors.IsNotFound(err) {
			w.retries.Forget(req)
			w.pace.forget(req)
			w.forget(req.NamespacedName)
			return reconcile.Result{}, nil
		}
		return w.settle(ctx, req, reconcile.Result{}, fmt.Errorf("get %s: %w", req, err))
	}
	if w.filter != "" && obj.GetLabels()[clusterv1.WatchLabel] != w.filter || w.finishing && obj.GetDeletionTimestamp().IsZero() {
		return reconcile.Result{}, nil
	}
	if name := obj.GetLabels()[clusterv1.ClusterNameLabel]; name != "" {
		log := ctrl.LoggerFrom(ctx).WithValues("Cluster", klog.KRef(obj.GetNamespace(), name))
		ctx = ctrl.LoggerInto(ctx, log)
	}
	w.pace.begin(req, w.pending.clock.Now())
	ctx = decisions.Of(w.pending.recording(ctx, req), w.name, obj, w.pending.clock.Now())
	res, err := w.inner.Reconcile(ctx, obj)
	if refused, ok := errors.AsType[*patch.RefusedError](err); ok && w.recorder != nil {
		w.recorder.Eventf(refused.Object, nil, corev1.EventTypeWarning, "WriteRefused", "Write", "the API does not accept a change: %v", refused)
	}
	res, err = w.settle(ctx, req, res, err)
	observe(w.name, started, res, err)
	return res, err
}

// wait returns how long to put a reconcile off.
func (w *runner[T]) wait(ctx context.Context, req reconcile.Request) time.Duration {
	if after := w.pace.wait(req, w.pending.clock.Now()); after > 0 {
		return after
	}
	after := w.pending.wait(ctx, req)
	if after > 0 {
		staleSkips.WithLabelValues(w.name).Inc()
	}
	return after
}

// settle turns a conflict, which only means that the cache was behind, into a quiet
// retry. Failures caused by the shutdown of the manager are ignored: all objects
// are reconciled again after a start. Every other failure keeps its requeue time;
// its retries end only if nothing in it can succeed without a change of the object.
func (w *runner[T]) settle(ctx context.Context, req reconcile.Request, res reconcile.Result, err error) (reconcile.Result, error) {
	postponed, err := takePostponed(err)
	if postponed > 0 && (res.RequeueAfter == 0 || postponed < res.RequeueAfter) {
		res.RequeueAfter = postponed
	}
	switch {
	case err == nil:
		w.retries.Forget(req)
		return res, nil
	case errors.Is(context.Cause(ctx), context.Canceled): // not the deadline of a reconcile
		ctrl.LoggerFrom(ctx).V(2).Info("Ending in the middle of a reconcile", "reason", err.Error())
		return reconcile.Result{}, nil
	case OnlyConflicts(err):
		after := w.retries.When(req)
		ctrl.LoggerFrom(ctx).V(2).Info("Retrying after a conflict", "reason", err.Error(), "after", after)
		return reconcile.Result{RequeueAfter: after}, nil
	}
	final := onlyTerminal(err)
	if res.RequeueAfter > 0 {
		w.backoff.ask(req, timer{res.RequeueAfter, final})
	}
	if errors.Is(err, reconcile.TerminalError(nil)) && (res.RequeueAfter > 0 || !final) {
		err = retried{err}
	}
	return reconcile.Result{}, err
}

// takePostponed takes the postponed writes out of err, and returns when the first of
// them is due.
func takePostponed(err error) (after time.Duration, rest error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var left []error
		for _, e := range joined.Unwrap() {
			a, r := takePostponed(e)
			if a > 0 && (after == 0 || a < after) {
				after = a
			}
			left = append(left, r)
		}
		return after, errors.Join(left...)
	}
	if postponed, ok := err.(*patch.PostponedError); ok {
		return postponed.After, nil
	}
	if inner := errors.Unwrap(err); inner != nil {
		if after, rest = takePostponed(inner); rest != nil {
			rest = err
		}
		return after, rest
	}
	return 0, err
}

// OnlyConflicts reports whether err, or each of the errors joined in it, means that
// another client changed or created an object meanwhile.
func OnlyConflicts(err error) bool {
	return all(err, func(e error) bool {
		_, ok := e.(apierrors.APIStatus)
		return ok && apierrors.IsConflict(e)
	})
}
