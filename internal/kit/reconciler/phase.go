// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// Phase is one step. Its name appears in errors, logs and traces.
type Phase[S any] struct {
	name string
	do   func(context.Context, S) (Next, error)
}

// Do creates a phase.
func Do[S any](name string, do func(context.Context, S) (Next, error)) Phase[S] {
	return Phase[S]{name, do}
}

// run does the step. Its errors carry its name; a panic is logged with its
// stack, as those of a whole reconcile are, and becomes an error.
func (p Phase[S]) run(ctx context.Context, s S) (next Next, err error) {
	err = recovery.Call(ctx, func() (err error) {
		next, err = p.do(ctx, s)
		return err
	})
	if err != nil {
		err = fmt.Errorf("%s: %w", p.name, err)
	}
	return next, err
}

// Next is what happens after a phase: Continue, RequeueAfter or Wait. A phase that
// fails returns its error with Continue, or with RequeueAfter if there is a time at
// which it may succeed: an error alone decides whether the phases after it run.
type Next struct {
	stop  bool
	after time.Duration
}

// Continue continues with the next phase.
func Continue() Next { return Next{} }

// RequeueAfter continues, and requests another reconcile within d.
func RequeueAfter(d time.Duration) Next { return Next{after: d} }

// Wait ends the reconcile; a watch triggers the next one, or d if it is not zero.
func Wait(d time.Duration) Next { return Next{stop: true, after: d} }

// Steps run phases on the state of one reconcile.
type Steps[S any] func(context.Context, S) (reconcile.Result, error)

// InOrder runs phases until one waits or fails. Use it where a later phase must not
// act before an earlier one is done, as in deletion. A failure does not cancel the
// requeue that the phases before it have requested.
func InOrder[S any](phases ...Phase[S]) Steps[S] {
	return func(ctx context.Context, s S) (res reconcile.Result, err error) {
		for _, p := range phases {
			next, err := p.run(ctx, s)
			res.RequeueAfter = Sooner(res.RequeueAfter, next.after)
			if err != nil {
				return res, err
			}
			if next.stop {
				break
			}
		}
		return res, nil
	}
}

// All runs every phase, also after others fail or wait. Use it where each phase
// observes something that the status must report.
func All[S any](phases ...Phase[S]) Steps[S] {
	return func(ctx context.Context, s S) (res reconcile.Result, _ error) {
		var errs []error
		for _, p := range phases {
			next, err := p.run(ctx, s)
			if err != nil {
				errs = append(errs, err)
			}
			res.RequeueAfter = Sooner(res.RequeueAfter, next.after)
		}
		return res, errors.Join(errs...)
	}
}

// Sooner returns the smaller of two delays, of which 0 means none.
func Sooner(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}
