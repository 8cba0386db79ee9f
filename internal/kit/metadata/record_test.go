// SPDX-License-Identifier: Apache-2.0

package metadata

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestForwardedFieldsAreRecordedAgain(t *testing.T) {
	t.Parallel()
	entry := func(manager, sub, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: "Update", APIVersion: "x.io/v1", Subresource: sub, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)},
		}
	}
	const cluster = `"f:labels":{"f:cluster.x-k8s.io/cluster-name":{}}`
	status, theirs := entry("us", "status", `{"f:status":{}}`), entry("them", "", `{"f:metadata":{"f:labels":{"f:a":{}}}}`)
	tests := map[string]struct {
		have []metav1.ManagedFieldsEntry
		lost bool
		want []metav1.ManagedFieldsEntry
	}{
		"nothing is known": {nil, true, []metav1.ManagedFieldsEntry{
			entry("us", "", `{"f:metadata":{"f:annotations":{"f:note":{}},"f:labels":{"f:a":{},"f:cluster.x-k8s.io/cluster-name":{}}}}`),
		}},
		"others have it": {[]metav1.ManagedFieldsEntry{theirs, status}, true, []metav1.ManagedFieldsEntry{
			theirs, status, entry("us", "", `{"f:metadata":{"f:annotations":{"f:note":{}},`+cluster+`}}`),
		}},
		"another client has applied the object since": {[]metav1.ManagedFieldsEntry{entry("before-first-apply", "", `{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{}}`)}, true, []metav1.ManagedFieldsEntry{
			entry("us", "", `{"f:metadata":{"f:annotations":{"f:note":{}},"f:labels":{"f:a":{},"f:cluster.x-k8s.io/cluster-name":{}}}}`),
		}},
		"and we have written since then": {[]metav1.ManagedFieldsEntry{entry("us", "", `{"f:spec":{}}`), entry("before-first-apply", "", `{}`)}, true, []metav1.ManagedFieldsEntry{entry("us", "", `{"f:spec":{}}`)}},
		"all is known":                   {[]metav1.ManagedFieldsEntry{entry("us", "", `{"f:spec":{}}`)}, false, []metav1.ManagedFieldsEntry{entry("us", "", `{"f:spec":{}}`)}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			obj := &metav1.ObjectMeta{
				Labels: map[string]string{"a": "1", "b": "2", "cluster.x-k8s.io/cluster-name": "c"}, Annotations: map[string]string{"note": "x", "other": "y"}, ManagedFields: tc.have,
			}
			if got := Lost(obj, "us"); got != tc.lost {
				t.Errorf("lost: %v", got)
			}
			got, err := Recorded(obj, "us", "x.io/v1", Want{Labels: map[string]string{"a": "1", "b": "3", "c": ""}, Annotations: map[string]string{"note": "x"}})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
}
