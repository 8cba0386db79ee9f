// SPDX-License-Identifier: Apache-2.0

// Package finalizer adds and removes finalizers on the object under reconcile.
// Nothing is written here: the reconcile's commit does that.
package finalizer

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Ensure adds the finalizer and reports whether it was missing. It replaces those
// that earlier versions stored under former names. An object that is being deleted
// gets none: the API server would refuse it.
//
// A reconcile that gets true must commit and return before it causes any effect
// outside the object, so that a crash leaves nothing behind.
func Ensure(obj client.Object, name string, former ...string) bool {
	if !obj.GetDeletionTimestamp().IsZero() {
		return false
	}
	added := controllerutil.AddFinalizer(obj, name)
	for _, f := range former {
		controllerutil.RemoveFinalizer(obj, f)
	}
	return added
}

// Remove takes the finalizer away, under whichever of the names it is there.
func Remove(obj client.Object, names ...string) {
	for _, name := range names {
		controllerutil.RemoveFinalizer(obj, name)
	}
}
