// SPDX-License-Identifier: Apache-2.0

package crdconversion

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
)

// guard refuses an update of a custom resource that would lose the owners of its
// fields.
//
// When an entry of managedFields has another version than the request, field
// management converts the object. If that fails, an API server continues with the
// update and stores it without any managedFields
// (https://github.com/kubernetes/kubernetes/issues/136919; until the Kubernetes
// that this program is built with has the fix). A failed request that is tried
// again is better. To empty the list on purpose, a client first removes the entries
// of other versions.
type guard struct{}

// Handles implements admission.Interface.
func (guard) Handles(o admission.Operation) bool { return o == admission.Update }

// Validate implements admission.ValidationInterface: fields are managed before.
func (guard) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	version := a.GetKind().GroupVersion().String()
	foreign := func(entry any) bool {
		e, ok := entry.(map[string]any)
		return ok && e["apiVersion"] != version
	}
	if len(managedFields(a.GetObject())) > 0 || !slices.ContainsFunc(managedFields(a.GetOldObject()), foreign) {
		return nil
	}
	return apierrors.NewInternalError(fmt.Errorf("managedFields of %s %s/%s, which has entries of other versions than %s, could not be converted: the log of the API server says why; try again when the conversion works",
		a.GetKind().Kind, a.GetNamespace(), a.GetName(), version))
}

// managedFields returns the entries as they are stored in the object, without
// parsing: each update of a custom resource reads them.
func managedFields(obj runtime.Object) []any {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	metadata, _ := u.Object["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	return entries
}
