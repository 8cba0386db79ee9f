// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Finalizer creates a defaulting webhook that adds the finalizer of its controller
// to an object at creation. The controller would do so first of all; this saves it
// the write, and the object the time without one.
func Finalizer[T any, P interface {
	*T
	client.Object
}](target Target, name string) Webhook {
	target.Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Create}
	target.When = map[string]string{"finalizer-missing": LacksFinalizer(name)}
	return Default(target, func(obj, old *T) {
		if old == nil {
			controllerutil.AddFinalizer(P(obj), name)
		}
	})
}

// LacksFinalizer is the condition that a new object has no such finalizer.
func LacksFinalizer(name string) string {
	return fmt.Sprintf("oldObject == null && !(%q in object.metadata.?finalizers.orValue([]))", name)
}
