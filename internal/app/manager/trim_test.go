// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

func TestTheCacheHoldsNoRecordOfStatusFields(t *testing.T) {
	t.Parallel()
	fields := &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{}}`)}
	machine := func(entries ...metav1.ManagedFieldsEntry) *clusterv1.Machine {
		return &clusterv1.Machine{
			TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion().String(), Kind: "Machine"},
			ObjectMeta: metav1.ObjectMeta{Name: "m", Labels: map[string]string{"a": "b"}, ManagedFields: entries},
		}
	}
	spec := metav1.ManagedFieldsEntry{Manager: "us", Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: fields}
	status := metav1.ManagedFieldsEntry{Manager: "us", Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: fields, Subresource: "status"}
	untyped := func(m *clusterv1.Machine) *unstructured.Unstructured {
		t.Helper()
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(m)
		if err != nil {
			t.Fatal(err)
		}
		return &unstructured.Unstructured{Object: object}
	}
	gone := cache.DeletedFinalStateUnknown{Key: "m"}
	tests := map[string]struct{ obj, want any }{
		"an object of a type":                  {machine(spec, status), machine(spec)},
		"an object without a type":             {untyped(machine(status, spec)), untyped(machine(spec))},
		"an object without a type or a record": {untyped(machine()), untyped(machine())},
		"what is no object":                    {gone, gone},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := withoutStatusFields(tc.obj)
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("error %v, difference (-want +got):\n%s", err, diff)
			}
		})
	}
}
