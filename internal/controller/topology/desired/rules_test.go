// SPDX-License-Identifier: Apache-2.0

package desired_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/controller/topology/desired"
)

// deployment is that of a name in the topology.
func deployment(t testing.TB, d desired.Desired, name string) desired.GroupPart {
	t.Helper()
	for _, g := range d.Deployments {
		if g.Name == name {
			return g
		}
	}
	t.Fatalf("there is no MachineDeployment %s", name)
	return desired.GroupPart{}
}

// at returns the value in an object at a path, whose parts are separated by blanks.
func at(t testing.TB, u *unstructured.Unstructured, path string) any {
	t.Helper()
	if u == nil {
		t.Fatalf("there is no object to look for %s in", path)
	}
	value, _, err := unstructured.NestedFieldNoCopy(u.Object, strings.Fields(path)...)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// check is one fact of an outcome.
type check struct {
	of   func(testing.TB, desired.Desired) *unstructured.Unstructured
	path string
	want any
}

func infra(_ testing.TB, d desired.Desired) *unstructured.Unstructured {
	return d.Infrastructure.Object
}
func plane(_ testing.TB, d desired.Desired) *unstructured.Unstructured { return d.ControlPlane.Object }
func planeHosts(_ testing.TB, d desired.Desired) *unstructured.Unstructured {
	return d.ControlPlane.Hosts
}
func md0(t testing.TB, d desired.Desired) *unstructured.Unstructured {
	return deployment(t, d, "md-0").Object
}
func md0Hosts(t testing.TB, d desired.Desired) *unstructured.Unstructured {
	return deployment(t, d, "md-0").Hosts
}
func pool(_ testing.TB, d desired.Desired) *unstructured.Unstructured { return d.Pools[0].Object }

func labels(pairs ...string) map[string]any {
	out := map[string]any{"cluster.x-k8s.io/cluster-name": "demo", "topology.cluster.x-k8s.io/owned": ""}
	for _, p := range pairs {
		key, value, _ := strings.Cut(p, "=")
		out[key] = value
	}
	return out
}

// group0 is the topology's group md-0, for edits.
func group0(w *world) *clusterv1.MachineDeploymentTopology {
	return &w.cluster.Spec.Topology.Workers.MachineDeployments[1]
}

// TestRules checks each rule of the desired objects, in addition to the golden file of a
// class that sets everything.
func TestRules(t *testing.T) {
	t.Parallel()
	none := func(*world) {}
	held := []any{map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "demo", "uid": "0000-demo", "controller": true, "blockOwnerDeletion": true,
	}}
	bare := func(w *world) { // class and topology have only required fields
		w.class.Spec.Patches = nil
		cp := &w.class.Spec.ControlPlane
		*cp = clusterv1.ControlPlaneClass{TemplateRef: cp.TemplateRef, MachineInfrastructure: cp.MachineInfrastructure}
		md := &w.class.Spec.Workers.MachineDeployments[0]
		*md = clusterv1.MachineDeploymentClass{Class: md.Class, Bootstrap: md.Bootstrap, Infrastructure: md.Infrastructure}
		w.cluster.Spec.Topology.ControlPlane = clusterv1.ControlPlaneTopology{}
		*group0(w) = clusterv1.MachineDeploymentTopology{Name: "md-0", Class: "big"}
	}
	tests := map[string]struct {
		edit   func(*world)
		checks []check
	}{
		"names by the templates of the class": {none, []check{
			{infra, "metadata name", "demo-infra-ht4x8"}, {plane, "metadata name", "demo-plane"}, {md0, "metadata name", "demo-md-0-big"},
		}},
		"names where the class has no templates": {bare, []check{
			{plane, "metadata name", "demo-km947"}, {md0, "metadata name", "demo-md-0-qkl88"}, {pool, "metadata name", "demo-mp-0-8ddx4"},
		}},
		"a name that is too long": {func(w *world) { w.cluster.Name = strings.Repeat("x", 60) }, []check{
			{infra, "metadata name", strings.Repeat("x", 58) + "ht4x8"}, {pool, "metadata name", strings.Repeat("x", 58) + "8ddx4"},
		}},
		"objects are in the namespace of the Cluster": {none, []check{{infra, "metadata namespace", "default"}, {planeHosts, "metadata namespace", "default"}, {md0, "metadata namespace", "default"}}},
		"a copy has nothing that the server keeps": {none, []check{
			{planeHosts, "metadata uid", nil}, {planeHosts, "metadata resourceVersion", nil}, {planeHosts, "metadata finalizers", nil}, {planeHosts, "status", nil},
			{planeHosts, "metadata annotations kubectl.kubernetes.io/last-applied-configuration", nil},
			{planeHosts, "metadata annotations cluster.x-k8s.io/conversion-data", nil},
		}},
		"an object has the metadata in the template, not that of the template": {none, []check{
			{infra, "metadata labels", labels("of-template=farm")}, {planeHosts, "metadata labels", labels("of-template=plane-hosts", "region=north")},
		}},
		"a template without a template is legal": {func(w *world) {
			delete(w.templates["FarmClusterTemplate/farm"].Object, "spec")
			delete(w.templates["HostTemplate/big-hosts"].Object, "spec")
			w.class.Spec.Patches = nil
		}, []check{{infra, "spec", nil}, {infra, "metadata labels", labels()}, {md0Hosts, "spec", nil}}},
		"what the Cluster refers to belongs to it from the start": {none, []check{{infra, "metadata ownerReferences", held}, {plane, "metadata ownerReferences", held}}},
		"what another controls is left to the Cluster": {func(w *world) {
			w.current.Infrastructure = w.compute(t).Infrastructure.Object
			w.current.Infrastructure.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "x.io/v1", Kind: "Composite", Name: "c", UID: "u", Controller: new(true)}})
		}, []check{{infra, "metadata ownerReferences", nil}, {plane, "metadata ownerReferences", held}}},
		"a control plane without machines of a template has what machines have": {func(w *world) {
			w.class.Spec.ControlPlane.MachineInfrastructure = clusterv1.ClusterClassTemplate{}
			w.cluster.Spec.Topology.ControlPlane.Deletion.NodeDrainTimeoutSeconds = new(int32(77))
			w.class.Spec.ControlPlane.ReadinessGates = []clusterv1.MachineReadinessGate{{ConditionType: "Checked"}}
			w.class.Spec.Patches = nil
		}, []check{
			{plane, "spec machineTemplate spec deletion nodeDrainTimeoutSeconds", int64(77)},
			{plane, "spec machineTemplate spec readinessGates", []any{map[string]any{"conditionType": "Checked"}}},
			{plane, "spec machineTemplate spec taints", []any{map[string]any{"effect": "NoSchedule", "key": "of-class", "propagation": "Always"}}},
		}},
		"in a file nothing has an owner": {func(w *world) { w.cluster.UID = "" }, []check{{infra, "metadata ownerReferences", nil}, {plane, "metadata ownerReferences", nil}}},
		"the topology wins over the class, that over the template": {none, []check{
			{plane, "metadata labels", labels("of-template=plane", "of-class=plane", "of-topology=plane", "of-both=topology")},
			{plane, "spec machineTemplate metadata labels", labels("of-machine-template=plane", "of-class=plane", "of-topology=plane", "of-both=topology")},
		}},
		"no object has other labels that objects are found by": {func(w *world) {
			w.cluster.Spec.Topology.ControlPlane.Metadata.Labels = map[string]string{clusterv1.ClusterNameLabel: "other"}
			group0(w).Metadata.Labels = map[string]string{clusterv1.ClusterTopologyMachineDeploymentNameLabel: "other", clusterv1.ClusterNameLabel: "other"}
		}, []check{
			{plane, "metadata labels cluster.x-k8s.io/cluster-name", "demo"}, {plane, "spec machineTemplate metadata labels cluster.x-k8s.io/cluster-name", "demo"},
			{md0, "metadata labels topology.cluster.x-k8s.io/deployment-name", "md-0"}, {md0, "spec template metadata labels cluster.x-k8s.io/cluster-name", "demo"},
		}},
		"what says that an upgrade waits stays in the topology": {none, []check{
			{func(t testing.TB, d desired.Desired) *unstructured.Unstructured {
				return deployment(t, d, "md-1").Object
			}, "metadata annotations", map[string]any{"of-class": "big", "of-topology": "big", "of-both": "topology"}},
		}},
		"the template has what class and topology leave open": {func(w *world) {
			bare(w)
			spec := w.templates["PlaneTemplate/plane"].Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
			spec["machineTemplate"] = map[string]any{"spec": map[string]any{
				"readinessGates": []any{map[string]any{"conditionType": "OfTemplate"}}, "deletion": map[string]any{"nodeDrainTimeoutSeconds": int64(5)},
			}}
		}, []check{
			{plane, "spec machineTemplate spec readinessGates", []any{map[string]any{"conditionType": "OfTemplate"}}},
			{plane, "spec machineTemplate spec deletion nodeDrainTimeoutSeconds", int64(5)}, {plane, "spec machineTemplate spec taints", nil},
			{plane, "spec replicas", nil}, {plane, "spec rollout", nil},
		}},
		"a control plane without machines of a template has no metadata of machines": {func(w *world) {
			w.class.Spec.ControlPlane.MachineInfrastructure = clusterv1.ClusterClassTemplate{}
			delete(w.templates["PlaneTemplate/plane"].Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any), "machineTemplate")
		}, []check{{plane, "spec machineTemplate metadata", nil}, {plane, "spec replicas", int64(3)}, {plane, "spec version", "v1.33.0"}}},
		"a control plane of the older contract": {func(w *world) { w.contract = contract.V1Beta1 }, []check{
			{plane, "spec machineTemplate infrastructureRef", map[string]any{"apiVersion": "infrastructure.example.com/v1", "kind": "HostTemplate", "namespace": "default", "name": "demo-q6fx5"}},
			{plane, "spec machineTemplate taints", []any{map[string]any{"key": "of-class", "effect": "NoSchedule", "propagation": "Always"}}},
			{plane, "spec machineTemplate readinessGates", []any{map[string]any{"conditionType": "OfClass"}}},
			{plane, "spec machineTemplate nodeVolumeDetachTimeout", "11s"}, {plane, "spec rolloutAfter", "2030-01-01T00:00:00Z"}, {plane, "spec machineTemplate spec", nil},
		}},
		"an endpoint that a template has empty is left to the provider": {func(w *world) {
			spec := w.templates["PlaneTemplate/plane"].Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
			spec["controlPlaneEndpoint"] = map[string]any{"host": "", "port": int64(6443)}
		}, []check{{infra, "spec controlPlaneEndpoint", nil}, {plane, "spec controlPlaneEndpoint", map[string]any{"port": int64(6443)}}}},
		"the selector has only what distinguishes the group": {none, []check{
			{md0, "spec selector matchLabels", labels("topology.cluster.x-k8s.io/deployment-name=md-0")},
			{md0, "metadata labels", labels("topology.cluster.x-k8s.io/deployment-name=md-0", "of-class=big", "of-both=class")},
			{md0, "spec template metadata labels", labels("topology.cluster.x-k8s.io/deployment-name=md-0", "of-class=big", "of-both=class")},
		}},
		"a MachineDeployment without further settings": {bare, []check{
			{md0, "spec replicas", nil}, {md0, "spec rollout", nil}, {md0, "spec deletion", nil}, {md0, "spec remediation", nil}, {md0, "spec machineNaming", nil},
			{md0, "spec template spec deletion", nil}, {md0, "spec template spec minReadySeconds", nil}, {md0, "metadata annotations", nil}, {md0, "status", nil},
		}},
		"replicas are left to the autoscaler": {func(w *world) {
			w.class.Spec.Workers.MachineDeployments[0].Metadata.Annotations = map[string]string{clusterv1.AutoscalerMinSizeAnnotation: "1"}
			group0(w).Metadata.Annotations = map[string]string{clusterv1.AutoscalerMaxSizeAnnotation: "5"}
		}, []check{{md0, "spec replicas", nil}, {md0, "metadata annotations", map[string]any{clusterv1.AutoscalerMinSizeAnnotation: "1", clusterv1.AutoscalerMaxSizeAnnotation: "5"}}}},
		"a time of a rollout leaves the strategy of the class": {func(w *world) {
			group0(w).Rollout.After = metav1.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
		}, []check{{md0, "spec rollout strategy rollingUpdate", map[string]any{"maxSurge": int64(2), "maxUnavailable": "10%"}}}},
		"a pool has neither rollout nor gates": {none, []check{
			{pool, "spec rollout", nil}, {pool, "spec template spec readinessGates", nil}, {pool, "spec selector", nil}, {pool, "spec failureDomains", []any{"fd-3"}},
			{pool, "spec template spec bootstrap configRef kind", "Seed"}, {pool, "spec template spec infrastructureRef kind", "Pond"},
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := load(t, "class.yaml")
			tc.edit(w)
			d := w.compute(t)
			for _, c := range tc.checks {
				if diff := cmp.Diff(c.want, at(t, c.of(t, d), c.path)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", c.path, diff)
				}
			}
			for _, err := range errs(d) {
				t.Error(err)
			}
		})
	}
}

// errs are the errors of the parts.
func errs(d desired.Desired) []string {
	if err := d.Problem(); err != nil {
		return strings.Split(err.Error(), "\n")
	}
	return nil
}

func TestTheClusterRefersToWhatIsThereOrToBeMade(t *testing.T) {
	t.Parallel()
	w := load(t, "class.yaml")
	d := w.compute(t)
	want := []clusterv1.ContractVersionedObjectReference{
		{APIGroup: "infrastructure.example.com", Kind: "FarmCluster", Name: "demo-infra-ht4x8"}, {APIGroup: "controlplane.example.com", Kind: "Plane", Name: "demo-plane"},
	}
	if diff := cmp.Diff(want, []clusterv1.ContractVersionedObjectReference{d.InfrastructureRef, d.ControlPlaneRef}); diff != "" {
		t.Errorf("new (-want +got):\n%s", diff)
	}
	// A referenced object keeps its name, even if it is not created yet.
	want[0].Name, want[1].Name = "older", "elder"
	w.cluster.Spec.InfrastructureRef, w.cluster.Spec.ControlPlaneRef = want[0], want[1]
	d = w.compute(t)
	got := []clusterv1.ContractVersionedObjectReference{d.InfrastructureRef, d.ControlPlaneRef}
	if diff := cmp.Diff(want, got); diff != "" || d.Infrastructure.Object.GetName() != "older" || d.ControlPlane.Object.GetName() != "elder" {
		t.Errorf("known (-want +got):\n%s; made are %s and %s", diff, d.Infrastructure.Object.GetName(), d.ControlPlane.Object.GetName())
	}
	if check := d.ControlPlane.HealthCheck; check.GetName() != "elder" {
		t.Errorf("the health check is named %s", check.GetName())
	}
	// Objects that are not created are not referred to.
	w = load(t, "class.yaml")
	delete(w.templates, "FarmClusterTemplate/farm")
	if d = w.compute(t); d.InfrastructureRef.IsDefined() || !d.ControlPlaneRef.IsDefined() {
		t.Errorf("without the template of infrastructure: %v, %v", d.InfrastructureRef, d.ControlPlaneRef)
	}
}

func TestHealthChecks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		edit       func(*world)
		plane, md0 bool
	}{
		"by the class":                      {func(w *world) { group0(w).HealthCheck = clusterv1.MachineDeploymentTopologyHealthCheck{} }, true, true},
		"turned off":                        {func(w *world) { w.cluster.Spec.Topology.ControlPlane.HealthCheck.Enabled = new(false) }, false, false},
		"for a control plane without hosts": {func(w *world) { w.class.Spec.ControlPlane.MachineInfrastructure = clusterv1.ClusterClassTemplate{} }, false, false},
		"of a class and a topology without one": {func(w *world) {
			w.class.Spec.ControlPlane.HealthCheck = clusterv1.ControlPlaneClassHealthCheck{}
		}, false, false},
	} {
		w := load(t, "class.yaml")
		tc.edit(w)
		d := w.compute(t)
		if got := d.ControlPlane.HealthCheck != nil; got != tc.plane {
			t.Errorf("%s: of the control plane: %t", name, got)
		}
		if got := deployment(t, d, "md-0").HealthCheck != nil; got != tc.md0 {
			t.Errorf("%s: of md-0: %t", name, got)
		}
	}
}
