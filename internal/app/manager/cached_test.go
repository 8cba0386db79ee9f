// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/index"
)

// TestWebhooksSeeAllNamespaces has a manager that is limited to one namespace: its
// webhooks are called for all.
func TestWebhooksSeeAllNamespaces(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	cluster := func(namespace, name, class string) client.Object {
		c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		c.Spec.Topology.ClassRef = clusterv1.ClusterClassRef{Namespace: "a", Name: class}
		return c
	}
	machine := func(namespace, name, cluster string) client.Object {
		return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: clusterv1.MachineSpec{ClusterName: cluster}}
	}
	live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		cluster("a", "one", "x"), cluster("b", "two", "x"), cluster("b", "three", "y"),
		machine("b", "m", "two"), machine("b", "other", "three"), machine("a", "elsewhere", "two")).Build()
	c := cached{Reader: fake.NewClientBuilder().WithScheme(scheme).Build(), live: live, partly: true}

	var clusters clusterv1.ClusterList
	if err := c.List(t.Context(), &clusters, client.MatchingFields{index.ClusterClass: "a/x"}, client.UnsafeDisableDeepCopy); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range clusters.Items {
		names = append(names, c.Namespace+"/"+c.Name)
	}
	if slices.Sort(names); !slices.Equal(names, []string{"a/one", "b/two"}) {
		t.Errorf("Clusters of the class: %v", names)
	}
	var machines clusterv1.MachineList
	if err := c.List(t.Context(), &machines, client.InNamespace("b"), client.MatchingFields{index.ClusterName: "two"}); err != nil {
		t.Fatal(err)
	}
	if len(machines.Items) != 1 || machines.Items[0].Name != "m" {
		t.Errorf("Machines of the Cluster: %v", machines.Items)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "b", Name: "two"}, &clusterv1.Cluster{}); err != nil {
		t.Error(err)
	}
}

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
