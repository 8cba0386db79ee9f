// SPDX-License-Identifier: Apache-2.0

package metadata

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSync(t *testing.T) {
	owned := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}
	}
	ours := owned("us", `{"f:metadata":{"f:labels":{".":{},"f:a":{},"f:old":{}},"f:annotations":{"f:note":{}}}}`)
	tests := map[string]struct {
		obj         metav1.ObjectMeta
		want        Want
		labels      map[string]string
		annotations map[string]string
		changed     bool
	}{
		"what is there stays": {
			obj:    metav1.ObjectMeta{Labels: map[string]string{"a": "1"}, ManagedFields: []metav1.ManagedFieldsEntry{ours}},
			want:   Want{Labels: map[string]string{"a": "1"}},
			labels: map[string]string{"a": "1"},
		},
		"what is missing or differs is set": {
			obj:         metav1.ObjectMeta{Labels: map[string]string{"a": "1"}},
			want:        Want{Labels: map[string]string{"a": "2", "b": "3"}, Annotations: map[string]string{"c": "4"}},
			labels:      map[string]string{"a": "2", "b": "3"},
			annotations: map[string]string{"c": "4"},
			changed:     true,
		},
		"what we set and no longer desire is removed": {
			obj: metav1.ObjectMeta{Labels: map[string]string{"a": "1", "old": "x"}, Annotations: map[string]string{"note": "x"},
				ManagedFields: []metav1.ManagedFieldsEntry{ours}},
			want:        Want{Labels: map[string]string{"a": "1"}},
			labels:      map[string]string{"a": "1"},
			annotations: map[string]string{},
			changed:     true,
		},
		"what others set stays": {
			obj: metav1.ObjectMeta{Labels: map[string]string{"theirs": "x"},
				ManagedFields: []metav1.ManagedFieldsEntry{owned("kubectl", `{"f:metadata":{"f:labels":{"f:theirs":{}}}}`)}},
			labels: map[string]string{"theirs": "x"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			changed, err := Sync(&tc.obj, "us", tc.want)
			if err != nil {
				t.Fatal(err)
			}
			if changed != tc.changed {
				t.Errorf("changed = %v, want %v", changed, tc.changed)
			}
			if diff := cmp.Diff(tc.labels, tc.obj.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.annotations, tc.obj.Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		})
	}
}
