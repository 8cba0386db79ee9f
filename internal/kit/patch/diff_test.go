// SPDX-License-Identifier: Apache-2.0

package patch

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// TestWhatChangedIsFoundInStructsAndMapsAlike changes a Machine once as its type
// and once as a map.
func TestWhatChangedIsFoundInStructsAndMapsAlike(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change     func(*clusterv1.Machine)
		wantRest   bool
		wantStatus []string
	}{
		"nothing":                            {change: func(*clusterv1.Machine) {}},
		"an empty list where there was none": {change: func(m *clusterv1.Machine) { m.Finalizers = []string{} }},
		"a label":                            {change: func(m *clusterv1.Machine) { m.Labels = map[string]string{"a": "b"} }, wantRest: true},
		"a field of spec that is taken away": {change: func(m *clusterv1.Machine) { m.Spec.ProviderID = "" }, wantRest: true},
		"two fields of status":               {change: func(m *clusterv1.Machine) { m.Status.Phase, m.Status.NodeRef.Name = "Running", "n" }, wantStatus: []string{"nodeRef", "phase"}},
		"a field of status that is taken away": {
			change:     func(m *clusterv1.Machine) { m.Status.Addresses = nil },
			wantStatus: []string{"addresses"},
		},
		"all of status":   {change: func(m *clusterv1.Machine) { m.Status = clusterv1.MachineStatus{} }, wantStatus: []string{"addresses", "phase"}},
		"spec and status": {change: func(m *clusterv1.Machine) { m.Spec.ProviderID, m.Status.Phase = "y", "Running" }, wantRest: true, wantStatus: []string{"phase"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := &clusterv1.Machine{Spec: clusterv1.MachineSpec{ProviderID: "x"}}
			before.Status.Phase, before.Status.Addresses = "Pending", clusterv1.MachineAddresses{{Address: "a"}}
			after := before.DeepCopy()
			tc.change(after)
			for form, pair := range map[string][2]client.Object{
				"struct": {before, after},
				"map":    {untyped(t, before), untyped(t, after)},
			} {
				rest, status := changed(pair[0], pair[1])
				slices.Sort(status)
				if diff := cmp.Diff(tc.wantStatus, status, cmpopts.EquateEmpty()); rest != tc.wantRest || diff != "" {
					t.Errorf("%s: outside of status %v, want %v; fields of status (-want +got):\n%s", form, rest, tc.wantRest, diff)
				}
			}
		})
	}
}

func untyped(t *testing.T, obj *clusterv1.Machine) *unstructured.Unstructured {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}

func TestAFractionOfASecondIsNotWritten(t *testing.T) {
	t.Parallel()
	m := &clusterv1.Machine{}
	m.Namespace, m.Name, m.Status.LastUpdated = "ns", "m", metav1.Unix(1, 0)
	c, writes := counting(t, m)
	commit := Snapshot(c, m)
	m.Status.LastUpdated = metav1.Unix(1, int64(time.Millisecond))
	if err := commit(t.Context()); err != nil || *writes != 0 {
		t.Errorf("error %v, %d writes, want none", err, *writes)
	}
}
