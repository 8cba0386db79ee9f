// SPDX-License-Identifier: Apache-2.0

// Package reconciler is the start and the end that reconciles have in common; a
// controller declares the steps in between.
//
//	observe -> finalizer -> pause -> store the finalizer -> act -> report -> write
//
// Nothing happens outside the object before its finalizer is stored, and nothing
// changes while it is paused. What was done is reported and written whether it
// went well or not.
//
// The steps in between are named phases. A phase reads and changes a state S that one
// reconcile owns, and returns what comes next. A stop is explicit, never inferred from
// a zero result. A phase that panics has failed: the report that follows must get that
// error, or it would report as healthy what was never read.
package reconciler

import (
	"context"
	"errors"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/pause"
)

// Object is a reconciled object: it has a condition that reports whether it is
// paused.
type Object interface {
	client.Object
	conditions.Setter
}

// Flow is one reconcile of a T, on a state S. What is optional may be nil.
type Flow[T Object, S any] struct {
	Clock clock.PassiveClock

	// Observe reads the state of the reconcile. If it returns no state, there is
	// nothing to do: a change of what is missing triggers the next reconcile.
	Observe func(context.Context, T) (*S, error)

	// Snapshot copies the object as it was observed, and returns a function that
	// writes the changes of the reconcile.
	Snapshot func(*S) patch.Commit

	// Finalizer keeps the object until Delete has released it; "" if no cleanup is
	// needed. It replaces Former.
	Finalizer string
	Former    []string

	// Cluster is the one that the object belongs to, or nil if it does not exist:
	// then an object that is not being deleted is only reported. Optional for what
	// belongs to none.
	Cluster func(*S) *clusterv1.Cluster

	// Paused reports a pause where condition Paused is another controller's.
	// Optional.
	Paused func(*S)

	// WhilePaused is what continues while it is paused: what runs keeps running. Optional.
	WhilePaused Steps[*S]

	// Prepare sets what every such object has in addition to its finalizer, and
	// reports whether that must be stored before anything else happens. Optional.
	Prepare func(*S) bool

	// Normal and Delete are the steps for an object that exists, and for one that is
	// being deleted.
	Normal, Delete Steps[*S]

	// Orphans says that Delete only deletes dependents: a client can ask to keep them.
	Orphans bool

	// Suppress reports whether what is missing is about to appear: before Normal,
	// nothing is even stored then; after it, nothing is reported unless it failed.
	// Optional.
	Suppress func(*S) bool

	// Report fills the status. It is pure; failed is what the steps returned.
	Report func(s *S, failed error)

	// Deprecated fills after that, in the same way, the status fields for clients of
	// v1beta1; nil leaves them alone, see If.
	Deprecated func(s *S, failed error)

	// Deadline is when time alone changes something next; zero for never. Optional.
	Deadline func(*S) time.Time
}

// Reconcile does it.
func (f Flow[T, S]) Reconcile(ctx context.Context, obj T) (res reconcile.Result, err error) {
	s, err := f.Observe(ctx, obj)
	if err != nil || s == nil {
		return res, err
	}
	commit := f.Snapshot(s)
	var cluster *clusterv1.Cluster
	if f.Cluster != nil {
		cluster = f.Cluster(s)
	}
	added := f.Finalizer != "" && EnsureFinalizer(obj, f.Finalizer, f.Former...)
	if pause.Requested(cluster, obj) {
		// It still gets its finalizer: deleted before the pause ends, it would
		// leave behind what it, or a copy of it that was moved here, represents.
		if f.Paused != nil {
			f.Paused(s)
		} else {
			conditions.Set(obj, f.Clock.Now(), pause.Condition(cluster, obj))
		}
		if f.WhilePaused != nil {
			res, err = f.WhilePaused(ctx, s)
		}
		return res, errors.Join(err, commit(ctx))
	}
	if f.suppressed(s) {
		return f.requeueBy(s, res), nil
	}
	prepared := f.Prepare != nil && f.Prepare(s)
	deleting := !obj.GetDeletionTimestamp().IsZero()
	orphaned := f.Cluster != nil && cluster == nil && !deleting
	if (added || prepared) && !orphaned {
		return res, commit(ctx) // nothing happens outside before the finalizer is stored
	}
	if deleting && f.Orphans && slices.Contains(obj.GetFinalizers(), metav1.FinalizerOrphanDependents) {
		RemoveFinalizers(obj, append(f.Former, f.Finalizer)...) // the garbage collector removes the owner references
		return res, commit(ctx)
	}
	defer func() {
		if err != nil || !f.suppressed(s) {
			f.Report(s, err)
			if f.Deprecated != nil {
				f.Deprecated(s, err)
			}
		}
		err = errors.Join(err, commit(ctx))
		res = f.requeueBy(s, res)
	}()
	switch {
	case deleting:
		return f.Delete(ctx, s)
	case orphaned:
		return res, nil // the report shows it; the creation of the Cluster triggers the next reconcile
	}
	return f.Normal(ctx, s)
}

// If returns report if wanted is true, else nil.
func If[S any](wanted bool, report func(s *S, failed error)) func(s *S, failed error) {
	if !wanted {
		return nil
	}
	return report
}

func (f Flow[T, S]) suppressed(s *S) bool { return f.Suppress != nil && f.Suppress(s) }

// requeueBy requeues the object no later than at the deadline.
func (f Flow[T, S]) requeueBy(s *S, res reconcile.Result) reconcile.Result {
	if f.Deadline == nil {
		return res
	}
	if at := f.Deadline(s); !at.IsZero() {
		res.RequeueAfter = Sooner(res.RequeueAfter, max(at.Sub(f.Clock.Now()), time.Millisecond))
	}
	return res
}

// EnsureFinalizer adds the finalizer and reports whether it was missing. It replaces those
// that earlier versions stored under former names. An object that is being deleted
// gets none: the API server would refuse it.
//
// A reconcile that gets true must commit and return before it causes any effect
// outside the object, so that a crash leaves nothing behind.
func EnsureFinalizer(obj client.Object, name string, former ...string) bool {
	if !obj.GetDeletionTimestamp().IsZero() {
		return false
	}
	added := controllerutil.AddFinalizer(obj, name)
	for _, f := range former {
		controllerutil.RemoveFinalizer(obj, f)
	}
	return added
}

// RemoveFinalizers takes the finalizer away, under whichever of the names it is there.
func RemoveFinalizers(obj client.Object, names ...string) {
	for _, name := range names {
		controllerutil.RemoveFinalizer(obj, name)
	}
}
