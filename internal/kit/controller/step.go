// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Stepped runs a reconciler without a manager: no informer triggers it and no queue
// keeps its timers; the caller does both.
type Stepped func(context.Context, client.ObjectKey) (after time.Duration, err error)

// Step creates the Stepped controller called name for objects of the type of obj in
// a store. A call does for one object what a manager's would: it returns the time
// after which the object must be reconciled again, because the reconcile requested
// it or for a retry; 0 means not before something changes. Conflicts are no errors,
// as in a manager.
func Step[T client.Object](name string, obj T, r reconcile.ObjectReconciler[T], store client.Client, c clock.PassiveClock) Stepped {
	w := newRunner(name, obj, r, newPending(store, store, c))
	return func(ctx context.Context, key client.ObjectKey) (time.Duration, error) {
		req := reconcile.Request{NamespacedName: key}
		res, err := w.Reconcile(ctx, req)
		switch {
		case errors.Is(err, reconcile.TerminalError(nil)):
			return 0, err
		case err != nil:
			return w.backoff.When(req), err
		}
		w.backoff.Forget(req)
		return res.RequeueAfter, nil
	}
}
