// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestOwnerIsTriggeredInAnyVersion: the version of the owner reference may no longer
// be served.
func TestOwnerIsTriggeredInAnyVersion(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ref  metav1.OwnerReference
		want bool
	}{
		"its version":          {metav1.OwnerReference{APIVersion: "x.io/v2", Kind: "Host", Name: "h", Controller: new(true)}, true},
		"one that is not here": {metav1.OwnerReference{APIVersion: "x.io/v1alpha1", Kind: "Host", Name: "h", Controller: new(true)}, true},
		"another group":        {metav1.OwnerReference{APIVersion: "y.io/v2", Kind: "Host", Name: "h", Controller: new(true)}, false},
		"another kind":         {metav1.OwnerReference{APIVersion: "x.io/v2", Kind: "Hosts", Name: "h", Controller: new(true)}, false},
		"no controller":        {metav1.OwnerReference{APIVersion: "x.io/v2", Kind: "Host", Name: "h"}, false},
	} {
		obj := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", OwnerReferences: []metav1.OwnerReference{tc.ref}}}
		got := Controlled(obj, schema.GroupKind{Group: "x.io", Kind: "Host"})
		if woken := len(got) == 1 && got[0].String() == "ns/h"; woken != tc.want || len(got) > 1 {
			t.Errorf("%s: reconciled %v, want %t", name, got, tc.want)
		}
	}
}
