// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestEntriesOfVersionsThatAreNotServedGo(t *testing.T) {
	t.Parallel()
	entry := func(manager, operation, version, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationType(operation), APIVersion: "x.io/" + version,
			FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)},
		}
	}
	ofStatus := func(e metav1.ManagedFieldsEntry) metav1.ManagedFieldsEntry {
		e.Subresource = "status"
		return e
	}
	tests := map[string]struct{ have, want []metav1.ManagedFieldsEntry }{
		"none at all": {nil, nil},
		"versions that are served": {
			[]metav1.ManagedFieldsEntry{entry("a", "Apply", "v1", `{"f:spec":{}}`), entry("a", "Update", "v2", `{"f:spec":{}}`)}, nil,
		},
		"one of several": {
			[]metav1.ManagedFieldsEntry{entry("a", "Apply", "v0", `{"f:metadata":{"f:labels":{"f:x":{}}}}`), entry("b", "Update", "v1", `{"f:spec":{"f:a":{}}}`)},
			[]metav1.ManagedFieldsEntry{entry("b", "Update", "v1", `{"f:spec":{"f:a":{}}}`)},
		},
		"all: the first manager is kept": {
			[]metav1.ManagedFieldsEntry{entry("a", "Apply", "v0", `{"f:spec":{}}`), entry("b", "Update", "v0", `{"f:spec":{}}`)},
			[]metav1.ManagedFieldsEntry{entry("a", "Apply", "v2", `{"f:metadata":{"f:name":{}}}`)},
		},
		"ours keeps what it has put on the object": {
			[]metav1.ManagedFieldsEntry{entry("capi-machineset", "Update", "v0", `{"f:metadata":{"f:labels":{"f:x":{}}},"f:spec":{"f:a":{}}}`), entry("b", "Update", "v1", `{"f:spec":{}}`)},
			[]metav1.ManagedFieldsEntry{entry("b", "Update", "v1", `{"f:spec":{}}`), entry("capi-machineset", "Update", "v2", `{"f:metadata":{"f:labels":{"f:x":{}}}}`)},
		},
		"ours joins the one that is there": {
			[]metav1.ManagedFieldsEntry{
				entry("capi-machineset", "Update", "v0", `{"f:metadata":{"f:labels":{"f:x":{}}}}`), entry("capi-machineset", "Update", "v2", `{"f:metadata":{"f:labels":{"f:y":{}}},"f:spec":{"f:a":{}}}`),
				entry("capi-machineset", "Apply", "v2", `{"f:spec":{"f:b":{}}}`),
			},
			[]metav1.ManagedFieldsEntry{entry("capi-machineset", "Update", "v2", `{"f:metadata":{"f:labels":{"f:x":{},"f:y":{}}},"f:spec":{"f:a":{}}}`), entry("capi-machineset", "Apply", "v2", `{"f:spec":{"f:b":{}}}`)},
		},
		"ours without metadata": {
			[]metav1.ManagedFieldsEntry{entry("capi-topology", "Apply", "v0", `{"f:spec":{"f:a":{}}}`)},
			[]metav1.ManagedFieldsEntry{entry("capi-topology", "Apply", "v2", `{"f:metadata":{"f:name":{}}}`)},
		},
		"ours of the status": {
			[]metav1.ManagedFieldsEntry{ofStatus(entry("capi-machineset", "Update", "v0", `{"f:metadata":{"f:labels":{}}}`)), entry("b", "Update", "v1", `{"f:spec":{}}`)},
			[]metav1.ManagedFieldsEntry{entry("b", "Update", "v1", `{"f:spec":{}}`)},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := fmt.Sprint(tc.have)
			got, changed, err := withoutUnserved(tc.have, []string{"x.io/v1", "x.io/v2"}, "x.io/v2")
			if err != nil {
				t.Fatal(err)
			}
			if changed != (tc.want != nil) {
				t.Errorf("changed: %v", changed)
			}
			if diff := cmp.Diff(tc.want, got); changed && diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
			if fmt.Sprint(tc.have) != before {
				t.Error("what was given is changed")
			}
		})
	}
}
