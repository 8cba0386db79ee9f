// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// difference is the path of the first field, by name, that two states of one
// object do not have in common; "" if users see none. It never holds a value,
// which may be secret.
func difference(a, b *unstructured.Unstructured) string {
	return path("", wished(a), wished(b))
}

// wished is an object without what only API servers and controllers write.
func wished(u *unstructured.Unstructured) map[string]any {
	u = u.DeepCopy()
	u.SetManagedFields(nil)
	u.SetResourceVersion("")
	u.SetGeneration(0)
	delete(u.Object, "status")
	return u.Object
}

func path(at string, a, b any) string {
	switch a := a.(type) {
	case map[string]any:
		if b, ok := b.(map[string]any); ok {
			return inMap(at, a, b)
		}
	case []any:
		if b, ok := b.([]any); ok && len(a) == len(b) {
			for i := range a {
				if p := path(fmt.Sprintf("%s[%d]", at, i), a[i], b[i]); p != "" {
					return p
				}
			}
			return ""
		}
	}
	if reflect.DeepEqual(a, b) {
		return ""
	}
	return at
}

func inMap(at string, a, b map[string]any) string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		below := key
		if at != "" {
			below = at + "." + key
		}
		if p := path(below, a[key], b[key]); p != "" {
			return p
		}
	}
	return ""
}
