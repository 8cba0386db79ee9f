// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// counted counts the lists of each kind and namespace, and fails those of one kind.
func counted(lists map[string]int, fails string, err error) interceptor.Funcs {
	return interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		kind := fmt.Sprintf("%T", list)
		if lists[kind+" in "+(&client.ListOptions{}).ApplyOptions(opts).Namespace]++; kind == fails {
			return err
		}
		return c.List(ctx, list, opts...)
	}}
}

// TestFinderListsEachNamespaceOnce has a change with many shared objects.
func TestFinderListsEachNamespaceOnce(t *testing.T) {
	t.Parallel()
	lists := map[string]int{}
	r := serve(t, counted(lists, "", nil))
	f := NewFinder(r.Mgmt)
	of := func(line string) {
		t.Helper()
		if _, err := f.Reached(t.Context(), parse(t, r.Mgmt.Scheme(), line)[0]); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{"kind: Cluster, namespace: ns, name: of-c", "kind: Namespace, name: new", "kind: ExtensionConfig, name: new"} {
		if of(line); len(lists) > 0 {
			t.Fatalf("%s: lists %v", line, lists)
		}
	}
	for i := range 20 {
		for _, line := range []string{
			"kind: KubeadmConfigTemplate, namespace: ns, name: t%d", "kind: WidgetMachineTemplate, namespace: classes, name: t%d", "kind: ClusterClass, namespace: ns, name: c%d",
			"kind: Secret, namespace: ns, name: s%d", "kind: ConfigMap, namespace: ns, name: c%d",
			"kind: ClusterResourceSet, namespace: ns, name: r%d, spec: {clusterSelector: {matchExpressions: [{key: net, operator: DoesNotExist}]}}",
		} {
			of(fmt.Sprintf(line, i))
		}
		of("kind: LocalMachineTemplate, namespace: classes, name: class-c") // whose class has Clusters
	}
	for list, n := range lists {
		if want := map[bool]int{false: 1, true: 2}[list == "*v1beta2.ClusterList in ns"]; n > want { // for templates, and for ClusterResourceSets
			t.Errorf("%s: listed %d times, want %d", list, n, want)
		}
	}
	if len(lists) < 8 {
		t.Errorf("lists %v", lists)
	}
}

// TestFinderReportsWhatItMayNotRead repeats an error without another request.
func TestFinderReportsWhatItMayNotRead(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "", errors.New("no"))
	for kind, line := range map[string]string{
		"*v1beta2.ClusterResourceSetList": "kind: Secret, namespace: ns, name: addon-c",
		"*v1beta2.ClusterList":            "kind: ClusterClass, namespace: classes, name: class-c",
		"*v1beta2.MachineSetList":         "kind: KubeadmConfigTemplate, namespace: ns, name: workers-c",
	} {
		lists := map[string]int{}
		r := serve(t, counted(lists, kind, forbidden))
		f := NewFinder(r.Mgmt)
		for range 3 {
			if keys, err := f.Reached(t.Context(), parse(t, r.Mgmt.Scheme(), line)[0]); !apierrors.IsForbidden(err) || len(keys) > 0 {
				t.Errorf("%s: reached %v, error %v", line, keys, err)
			}
		}
		for list, n := range lists {
			if n > 1 {
				t.Errorf("%s: %s: listed %d times", line, list, n)
			}
		}
	}
}
