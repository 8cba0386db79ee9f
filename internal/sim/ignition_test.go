// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/conditions"
)

// TestAClusterOfIgnitionMachinesBecomesAvailable: control plane machines and a
// worker read Ignition in place of cloud-config.
func TestAClusterOfIgnitionMachinesBecomesAvailable(t *testing.T) {
	t.Parallel()
	w := New(t)
	doc, err := clusterctl.Generate(clusterctl.GenerateOptions{Name: "demo", KubernetesVersion: "v1.36.3", ControlPlaneMachines: new(int32(3)), WorkerMachines: new(int32(1))})
	w.must(err)
	objects, err := template.Objects(doc)
	w.must(err)
	for _, obj := range objects {
		for kind, path := range map[string][]string{
			"KubeadmControlPlane": {"spec", "kubeadmConfigSpec"}, "KubeadmConfigTemplate": {"spec", "template", "spec"},
		} {
			if obj.GetKind() == kind {
				w.must(unstructured.SetNestedField(obj.Object, string(bootstrapv1.Ignition), append(path, "format")...))
				for _, part := range []string{"initConfiguration", "joinConfiguration"} { // the name of the Node is in jinja
					unstructured.RemoveNestedField(obj.Object, append(path, part, "nodeRegistration", "name")...)
				}
			}
		}
		w.must(w.Mgmt.Create(t.Context(), obj))
	}
	w.Run()
	cluster := get(t, w, "demo", &clusterv1.Cluster{})
	if c := conditions.Get(cluster, clusterv1.AvailableCondition); !conditions.IsTrue(cluster, clusterv1.AvailableCondition) {
		t.Errorf("Available is %+v", c)
	}
	if kcp := get(t, w, "demo-control-plane", &controlplanev1.KubeadmControlPlane{}); kcp.Spec.KubeadmConfigSpec.Format != bootstrapv1.Ignition {
		t.Errorf("the format is %s", kcp.Spec.KubeadmConfigSpec.Format)
	}
	for _, obj := range w.objects("KubeadmConfig") {
		if f := obj.(*bootstrapv1.KubeadmConfig).Spec.Format; f != bootstrapv1.Ignition {
			t.Errorf("%s is of the format %s", obj.GetName(), f)
		}
	}
	for _, obj := range w.objects("Machine") {
		if m := obj.(*clusterv1.Machine); !m.Status.NodeRef.IsDefined() {
			t.Errorf("Machine %s has no Node", m.Name)
		}
	}
}
