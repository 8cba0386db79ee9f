// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

func obj(fields map[string]any) *unstructured.Unstructured {
	all := map[string]any{"kind": "Thing", "metadata": map[string]any{"name": "t0"}}
	for k, v := range fields {
		all[k] = v
	}
	return &unstructured.Unstructured{Object: all}
}

// m makes a map of alternating keys and values.
func m(kv ...any) map[string]any {
	out := map[string]any{}
	for i := 0; i < len(kv); i += 2 {
		out[kv[i].(string)] = kv[i+1]
	}
	return out
}

// TestFields reads every promised field in every contract version, from the
// place and in the form that the contract gives it.
func TestFields(t *testing.T) {
	t.Parallel()
	cluster1, cluster2 := infraClusters[V1Beta1], infraClusters[V1Beta2]
	machine1, machine2 := infraMachines[V1Beta1], infraMachines[V1Beta2]
	pool1, pool2 := infraMachinePools[V1Beta1], infraMachinePools[V1Beta2]
	boot1, boot2 := bootstrapConfigs[V1Beta1], bootstrapConfigs[V1Beta2]
	cp1, cp2 := controlPlanes[V1Beta1], controlPlanes[V1Beta2]
	endpoint := m("controlPlaneEndpoint", m("host", "10.0.0.1", "port", int64(6443)))
	domains := []clusterv1.FailureDomain{
		{Name: "a", ControlPlane: new(true)}, {Name: "b", Attributes: map[string]string{"zone": "1"}},
	}
	tests := map[string]struct {
		object *unstructured.Unstructured
		get    func(*unstructured.Unstructured) (any, bool, error)
		want   any
	}{
		"v1beta1 infra cluster ready":       {obj(m("status", m("ready", true))), any1(cluster1.Provisioned), true},
		"v1beta2 infra cluster provisioned": {obj(m("status", m("initialization", m("provisioned", true)))), any1(cluster2.Provisioned), true},
		"v1beta1 endpoint":                  {obj(m("spec", endpoint)), any1(cluster1.ControlPlaneEndpoint), clusterv1.APIEndpoint{Host: "10.0.0.1", Port: 6443}},
		"v1beta2 endpoint":                  {obj(m("spec", endpoint)), any1(cluster2.ControlPlaneEndpoint), clusterv1.APIEndpoint{Host: "10.0.0.1", Port: 6443}},
		"v1beta1 failure domains are a map": {
			obj(m("status", m("failureDomains", m("b", m("attributes", m("zone", "1")), "a", m("controlPlane", true))))), any1(cluster1.FailureDomains), domains,
		},
		"v1beta2 failure domains are a list": {
			obj(m("status", m("failureDomains", []any{m("name", "a", "controlPlane", true), m("name", "b", "attributes", m("zone", "1"))}))), any1(cluster2.FailureDomains), domains,
		},
		"v1beta1 machine ready":        {obj(m("status", m("ready", false))), any1(machine1.Provisioned), false},
		"v1beta2 machine provisioned":  {obj(m("status", m("initialization", m("provisioned", true)))), any1(machine2.Provisioned), true},
		"provider id":                  {obj(m("spec", m("providerID", "x://1"))), any1(machine2.ProviderID), "x://1"},
		"addresses":                    {obj(m("status", m("addresses", []any{m("type", "InternalIP", "address", "10.0.0.9")}))), any1(machine2.Addresses), clusterv1.MachineAddresses{{Type: clusterv1.MachineInternalIP, Address: "10.0.0.9"}}},
		"failure domain":               {obj(m("status", m("failureDomain", "a"))), any1(machine2.FailureDomain), "a"},
		"older failure domain":         {obj(m("spec", m("failureDomain", "a"))), any1(machine1.WantedFailureDomain), "a"},
		"interruptible":                {obj(m("status", m("interruptible", true))), any1(machine1.Interruptible), true},
		"v1beta1 pool ready":           {obj(m("status", m("ready", true))), any1(pool1.Provisioned), true},
		"v1beta2 pool provisioned":     {obj(m("status", m("initialization", m("provisioned", true)))), any1(pool2.Provisioned), true},
		"pool ids":                     {obj(m("spec", m("providerIDList", []any{"a", "b"}))), any1(pool2.ProviderIDList), []string{"a", "b"}},
		"pool replicas":                {obj(m("status", m("replicas", int64(3)))), any1(pool2.Replicas), int32(3)},
		"pool machine kind":            {obj(m("status", m("infrastructureMachineKind", "LocalMachine"))), any1(pool2.MachineKind), "LocalMachine"},
		"v1beta1 bootstrap ready":      {obj(m("status", m("ready", true))), any1(boot1.DataSecretCreated), true},
		"v1beta2 bootstrap created":    {obj(m("status", m("initialization", m("dataSecretCreated", true)))), any1(boot2.DataSecretCreated), true},
		"bootstrap secret":             {obj(m("status", m("dataSecretName", "s"))), any1(boot2.DataSecretName), "s"},
		"capacity":                     {obj(m("status", m("capacity", m("cpu", "2")))), any1(infraMachineTemplate.Capacity), corev1.ResourceList{"cpu": resource.MustParse("2")}},
		"template node info":           {obj(m("status", m("nodeInfo", m("architecture", "arm64", "operatingSystem", "linux")))), any1(infraMachineTemplate.NodeInfo), TemplateNodeInfo{"arm64", "linux"}},
		"v1beta1 initialized":          {obj(m("status", m("initialized", true))), any1(cp1.Initialized), true},
		"v1beta2 initialized":          {obj(m("status", m("initialization", m("controlPlaneInitialized", true)))), any1(cp2.Initialized), true},
		"externally managed":           {obj(m("status", m("externalManagedControlPlane", true))), any1(cp2.ExternallyManaged), true},
		"v1beta1 up to date replicas":  {obj(m("status", m("updatedReplicas", int64(2)))), any1(cp1.UpToDateReplicas), int32(2)},
		"v1beta2 up to date replicas":  {obj(m("status", m("upToDateReplicas", int64(2)))), any1(cp2.UpToDateReplicas), int32(2)},
		"versions":                     {obj(m("status", m("versions", []any{m("version", "v1.36.0", "replicas", int64(3))}))), any1(cp2.Versions), []clusterv1.StatusVersion{{Version: "v1.36.0", Replicas: 3}}},
		"v1beta1 machine template ref": {obj(m("spec", m("machineTemplate", m("infrastructureRef", m("apiVersion", "x.io/v1", "kind", "XMachineTemplate", "name", "n"))))), any1(cp1.MachineTemplate.InfrastructureRef), clusterv1.ContractVersionedObjectReference{APIGroup: "x.io", Kind: "XMachineTemplate", Name: "n"}},
		"v1beta2 machine template ref": {obj(m("spec", m("machineTemplate", m("spec", m("infrastructureRef", m("apiGroup", "x.io", "kind", "XMachineTemplate", "name", "n")))))), any1(cp2.MachineTemplate.InfrastructureRef), clusterv1.ContractVersionedObjectReference{APIGroup: "x.io", Kind: "XMachineTemplate", Name: "n"}},
		"v1beta1 drain timeout":        {obj(m("spec", m("machineTemplate", m("nodeDrainTimeout", "1m30s")))), any1(cp1.MachineTemplate.NodeDrainSeconds), int32(90)},
		"v1beta2 drain timeout":        {obj(m("spec", m("machineTemplate", m("spec", m("deletion", m("nodeDrainTimeoutSeconds", int64(90))))))), any1(cp2.MachineTemplate.NodeDrainSeconds), int32(90)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok, err := tc.get(tc.object)
			if err != nil || !ok {
				t.Fatalf("Get: ok %v, error %v", ok, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("value (-want +got):\n%s", diff)
			}
			if got, ok, err := tc.get(obj(nil)); ok || err != nil {
				t.Errorf("Get of an object without the field = %v, %v, %v; want absent, without error", got, ok, err)
			}
		})
	}
}

func any1[T any](f Field[T]) func(*unstructured.Unstructured) (any, bool, error) {
	return func(o *unstructured.Unstructured) (any, bool, error) { return f.Get(o) }
}

func TestGetNamesObjectAndPathOfAWrongType(t *testing.T) {
	t.Parallel()
	c, err := InfraMachineFor(V1Beta1)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = c.Provisioned.Get(obj(m("status", m("ready", "yes"))))
	const want = "decode status.ready of Thing t0: json: cannot unmarshal string into Go value of type bool"
	if err == nil || err.Error() != want {
		t.Errorf("error = %v, want %q", err, want)
	}
}

func TestAPoolIsProvisionedInTheWordsOfAnyVersion(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		status map[string]any
		want   bool
	}{
		"nothing is said":              {m(), false},
		"in the words of v1beta1":      {m("ready", true), true},
		"in the words of v1beta2":      {m("initialization", m("provisioned", true)), true},
		"in one, and the other denies": {m("ready", true, "initialization", m("provisioned", false)), true},
		"neither":                      {m("ready", false, "initialization", m("provisioned", false)), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for v, c := range infraMachinePools {
				if got, err := c.IsProvisioned(obj(m("status", tc.status))); err != nil || got != tc.want {
					t.Errorf("contract %s: %t, %v, want %t", v, got, err, tc.want)
				}
			}
		})
	}
}

func TestSetThenGetGivesTheSame(t *testing.T) {
	t.Parallel()
	o := &unstructured.Unstructured{}
	cp1, cp2, cluster1 := controlPlanes[V1Beta1], controlPlanes[V1Beta2], infraClusters[V1Beta1]
	domains := []clusterv1.FailureDomain{{Name: "a", ControlPlane: new(true), Attributes: map[string]string{"k": "v"}}}
	for name, err := range map[string]error{
		"endpoint": cp2.ControlPlaneEndpoint.Set(o, clusterv1.APIEndpoint{Host: "h", Port: 6443}),
		"replicas": cp2.Replicas.Set(o, 3),
		"timeout":  cp1.MachineTemplate.NodeDrainSeconds.Set(o, 90),
		"taints":   cp1.MachineTemplate.Taints.Set(o, []clusterv1.MachineTaint{{Key: "k", Effect: "NoSchedule"}}),
		"domains":  cluster1.FailureDomains.Set(o, domains),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	want := m(
		"spec", m("controlPlaneEndpoint", m("host", "h", "port", int64(6443)), "replicas", int64(3), "machineTemplate", m("nodeDrainTimeout", "1m30s", "taints", []any{m("key", "k", "effect", "NoSchedule")})),
		"status", m("failureDomains", m("a", m("controlPlane", true, "attributes", m("k", "v")))))
	if diff := cmp.Diff(want, o.Object); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
	o.DeepCopy() // panics on anything that unstructured objects may not hold
}

func TestReferIsWhatEachVersionHas(t *testing.T) {
	t.Parallel()
	template := obj(nil)
	template.SetAPIVersion("infra.example.com/v1")
	template.SetKind("HostTemplate")
	template.SetNamespace("ns")
	template.SetName("t")
	for version, want := range map[string]map[string]any{
		V1Beta1: m("infrastructureRef", m("apiVersion", "infra.example.com/v1", "kind", "HostTemplate", "namespace", "ns", "name", "t")),
		V1Beta2: m("spec", m("infrastructureRef", m("apiGroup", "infra.example.com", "kind", "HostTemplate", "name", "t"))),
	} {
		o, c := &unstructured.Unstructured{}, controlPlanes[version].MachineTemplate
		if err := c.Refer(o, template); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m("spec", m("machineTemplate", want)), o.Object); diff != "" {
			t.Errorf("contract %s (-want +got):\n%s", version, diff)
		}
		if ref, ok, err := c.InfrastructureRef.Get(o); !ok || err != nil || ref != (clusterv1.ContractVersionedObjectReference{APIGroup: "infra.example.com", Kind: "HostTemplate", Name: "t"}) {
			t.Errorf("contract %s: read as %v, %t, %v", version, ref, ok, err)
		}
	}
}

func TestSetRefusesWhatTheVersionDoesNotHave(t *testing.T) {
	t.Parallel()
	if err := controlPlanes[V1Beta2].UnavailableReplicas.Set(obj(nil), 1); err == nil {
		t.Error("a field of another version was set")
	}
	if err := controlPlanes[V1Beta1].MachineTemplate.InfrastructureRef.Set(obj(nil), clusterv1.ContractVersionedObjectReference{}); err == nil {
		t.Error("a field that is only read was set")
	}
}
