// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"testing"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Reconcile calls a reconciler once with an object as it is stored. It returns the object
// afterwards, nil if it was deleted.
func Reconcile[T any, P interface {
	*T
	client.Object
}](t testing.TB, c client.Reader, key client.ObjectKey, r reconcile.ObjectReconciler[P]) (P, ctrl.Result, error) {
	t.Helper()
	obj, after := P(new(T)), P(new(T))
	Must(t, c.Get(t.Context(), key, obj))
	res, err := r.Reconcile(t.Context(), obj)
	if getErr := c.Get(t.Context(), key, after); getErr != nil {
		Must(t, client.IgnoreNotFound(getErr))
		return nil, res, err
	}
	return after, res, err
}

// Must ends a test whose preparation fails.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
