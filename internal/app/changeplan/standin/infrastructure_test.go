// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/sim"
)

const boot = 3 * time.Minute

// widgets define the kinds of another provider, of a contract.
func widgets(t *testing.T, contract string) (all []*apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	for _, kind := range []string{"WidgetCluster", "WidgetMachine", "WidgetConfig"} {
		all = append(all, builder.Parse[apiextensionsv1.CustomResourceDefinition](t, strings.NewReplacer("KIND", kind, "NAME", strings.ToLower(kind), "CONTRACT", contract).Replace(`
metadata: {name: NAMEs.widgets.example, labels: {cluster.x-k8s.io/CONTRACT: v1}}
spec:
  group: widgets.example
  scope: Namespaced
  names: {kind: KIND, plural: NAMEs, singular: NAME, listKind: KINDList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}, status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
`)))
	}
	return all
}

// TestForeignProvidersAreSimulated has a Cluster whose infrastructure and bootstrap are
// of another provider: each machine becomes a Node after the boot time, and a deleted
// Machine disappears although its infrastructure has a finalizer.
func TestForeignProvidersAreSimulated(t *testing.T) {
	t.Parallel()
	for _, contract := range []string{"v1beta1", "v1beta2"} {
		t.Run(contract, func(t *testing.T) {
			t.Parallel()
			clock := sim.NewClock(now)
			out, err := New(t.Context(), Options{Clock: clock, Boot: boot})
			if err != nil {
				t.Fatal(err)
			}
			o := sim.Options{Clock: clock, Definitions: widgets(t, contract)}
			out.Fill(&o)
			w, err := sim.NewWorld(o)
			if err != nil {
				t.Fatal(err)
			}
			create(t, w, "{apiVersion: widgets.example/v1, kind: WidgetCluster, metadata: {name: demo}, spec: {}}")
			create(t, w, "{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: demo}, spec: {infrastructureRef: {apiGroup: widgets.example, kind: WidgetCluster, name: demo}}}")
			for name, label := range map[string]string{"cp": ", cluster.x-k8s.io/control-plane: ''", "worker": ""} {
				for _, kind := range []string{"WidgetMachine", "WidgetConfig"} {
					create(t, w, fmt.Sprintf("{apiVersion: widgets.example/v1, kind: %s, metadata: {name: %s, finalizers: [widgets.example/x], labels: {cluster.x-k8s.io/cluster-name: demo}}, spec: {}}", kind, name))
				}
				create(t, w, fmt.Sprintf(`
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: %[1]s, labels: {cluster.x-k8s.io/cluster-name: demo%[2]s}}
spec:
  clusterName: demo
  version: v1.36.0
  bootstrap: {configRef: {apiGroup: widgets.example, kind: WidgetConfig, name: %[1]s}}
  infrastructureRef: {apiGroup: widgets.example, kind: WidgetMachine, name: %[1]s}`, name, label))
			}
			run := func(d time.Duration) {
				t.Helper()
				if err := w.RunFor(t.Context(), d); err != nil {
					t.Fatal(err)
				}
			}
			machine := func(name string) *clusterv1.Machine {
				t.Helper()
				m := &clusterv1.Machine{}
				if err := w.Mgmt.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, m); err != nil {
					t.Fatal(err)
				}
				return m
			}
			run(boot - time.Second)
			if m := machine("worker"); m.Spec.ProviderID != "" || m.Spec.Bootstrap.DataSecretName == nil {
				t.Errorf("before the boot time: providerID %q, bootstrap data %v", m.Spec.ProviderID, m.Spec.Bootstrap.DataSecretName)
			}
			run(time.Minute)
			for _, name := range []string{"cp", "worker"} {
				if m := machine(name); m.Spec.ProviderID != "planned://default/demo/"+name || m.Status.NodeRef.Name != name || m.Status.NodeInfo.KubeletVersion != "v1.36.0" {
					t.Errorf("after the boot time: Machine %s has providerID %q, Node %q", name, m.Spec.ProviderID, m.Status.NodeRef.Name)
				}
			}
			if err := w.Mgmt.Delete(t.Context(), machine("worker")); err != nil {
				t.Fatal(err)
			}
			run(time.Minute)
			for _, kind := range []string{"Machine", "WidgetMachine", "WidgetConfig"} {
				for _, gvk := range w.Kinds() {
					if gvk.Kind != kind {
						continue
					}
					if left := w.Stored(gvk); len(left) != 1 || left[0].GetName() != "cp" {
						t.Errorf("%s: %d objects are left", kind, len(left))
					}
				}
			}
			node := &corev1.Node{}
			if err := out.workloads.get(demo).api.Get(t.Context(), client.ObjectKey{Name: "worker"}, node); client.IgnoreNotFound(err) != nil || err == nil {
				t.Errorf("the Node of the deleted Machine: error %v", err)
			}
		})
	}
}

func create(t *testing.T, w *sim.World, doc string) {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	u.SetNamespace("default")
	if err := w.Mgmt.Create(t.Context(), u); err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
}
