// SPDX-License-Identifier: Apache-2.0

package metadata

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Pointers returns pointers to the items of a list.
func Pointers[T any](list []T) []*T {
	all := make([]*T, len(list))
	for i := range list {
		all[i] = &list[i]
	}
	return all
}

// Named returns the object of that name; the zero value, nil, if there is none.
func Named[T metav1.Object](all []T, name string) (none T) {
	for _, obj := range all {
		if obj.GetName() == name {
			return obj
		}
	}
	return none
}
