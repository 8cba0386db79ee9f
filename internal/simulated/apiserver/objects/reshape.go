// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// renamed says where the fields of an object lie that is served by two groups,
// by the group that it is kept in: Events.
var renamed = [][2]string{
	{"involvedObject", "regarding"},
	{"message", "note"},
	{"source", "deprecatedSource"},
	{"firstTimestamp", "deprecatedFirstTimestamp"},
	{"lastTimestamp", "deprecatedLastTimestamp"},
	{"count", "deprecatedCount"},
	{"reportingComponent", "reportingController"},
}

// reshape makes u an object of another kind that is kept as the same.
func reshape(u *unstructured.Unstructured, to schema.GroupVersionKind) error {
	from := u.GroupVersionKind()
	u.SetGroupVersionKind(to)
	if from.Group == to.Group {
		return nil
	}
	was, is := 0, 1
	if to.Group == "" {
		was, is = 1, 0
	}
	for _, names := range renamed {
		if v, ok := u.Object[names[was]]; ok {
			delete(u.Object, names[was])
			u.Object[names[is]] = v
		}
	}
	return nil
}
