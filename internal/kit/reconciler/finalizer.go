// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

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
