// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// withoutStatusFields removes from an object, before it is cached, the managed
// fields of its status: no controller reads them (kit/metadata reads those of
// labels and annotations). An object with a dozen conditions would be nearly half
// as large again, and an unstructured one, in which managed fields are a tree of
// maps, several times as expensive to copy.
func withoutStatusFields(obj any) (any, error) {
	switch o := obj.(type) {
	case *unstructured.Unstructured: // as it is: GetManagedFields would convert it
		entries, found, err := unstructured.NestedFieldNoCopy(o.Object, "metadata", "managedFields")
		if list, ok := entries.([]any); found && err == nil && ok {
			o.Object["metadata"].(map[string]any)["managedFields"] = slices.DeleteFunc(list, func(entry any) bool {
				e, ok := entry.(map[string]any)
				return ok && e["subresource"] != nil
			})
		}
	case metav1.Object:
		o.SetManagedFields(slices.DeleteFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Subresource != "" }))
	}
	return obj, nil
}
