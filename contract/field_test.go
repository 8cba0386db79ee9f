// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// m returns a map of alternating keys and values.
func m(kv ...any) map[string]any {
	out := map[string]any{}
	for i := 0; i < len(kv); i += 2 {
		out[kv[i].(string)] = kv[i+1]
	}
	return out
}

// TestFields reads every field in every contract version, at the path and in the form
// that the contract defines.
func TestFields(t *testing.T) {
	t.Parallel()
	cluster1, cluster2 := infraClusters[V1Beta1], infraClusters[V1Beta2]
	machine1, machine2 := infraMachines[V1Beta1], infraMachines[V1Beta2]
	pool1, pool2 := infraMachinePools[V1Beta1], infraMachinePools[V1Beta2]
	boot1, boot2 := bootstrapConfigs[V1Beta1], bootstrapConfigs[V1Beta2]
	cp1, cp2 := controlPlanes[V1Beta1], controlPlanes[V1Beta2]
	endpoint := m("controlPlaneEndpoint", m("host", "10.0.0.1", "port", int64(6443)))
	gates, taints := []any{m("conditionType", "x")}, []any{m("key", "k", "effect", "NoSchedule")}
	newYear := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Local())
	domains := []clusterv1.FailureDomain{
		{Name: "a", ControlPlane: new(true)}, {Name: "b", ControlPlane: new(false), Attributes: map[string]string{"zone": "1"}},
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
			obj(m("status", m("failureDomains", []any{m("name", "b", "attributes", m("zone", "1")), m("name", "a", "controlPlane", true)}))), any1(cluster2.FailureDomains), domains,
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
		"v1beta1 detach timeout":       {obj(m("spec", m("machineTemplate", m("nodeVolumeDetachTimeout", "1.9s")))), any1(cp1.MachineTemplate.NodeVolumeDetachSeconds), int32(1)},
		"v1beta1 endless timeout":      {obj(m("spec", m("machineTemplate", m("nodeDeletionTimeout", "2540400h")))), any1(cp1.MachineTemplate.NodeDeletionSeconds), int32(math.MaxInt32)},
		"v1beta2 detach timeout":       {obj(m("spec", m("machineTemplate", m("spec", m("deletion", m("nodeVolumeDetachTimeoutSeconds", int64(1))))))), any1(cp2.MachineTemplate.NodeVolumeDetachSeconds), int32(1)},
		"v1beta2 deletion timeout":     {obj(m("spec", m("machineTemplate", m("spec", m("deletion", m("nodeDeletionTimeoutSeconds", int64(9))))))), any1(cp2.MachineTemplate.NodeDeletionSeconds), int32(9)},
		"v1beta1 unavailable replicas": {obj(m("status", m("unavailableReplicas", int64(2)))), any1(cp1.UnavailableReplicas), int32(2)},
		"v1beta2 available replicas":   {obj(m("status", m("availableReplicas", int64(2)))), any1(cp2.AvailableReplicas), int32(2)},
		"v1beta1 readiness gates":      {obj(m("spec", m("machineTemplate", m("readinessGates", gates)))), any1(cp1.MachineTemplate.ReadinessGates), []clusterv1.MachineReadinessGate{{ConditionType: "x"}}},
		"v1beta2 readiness gates":      {obj(m("spec", m("machineTemplate", m("spec", m("readinessGates", gates))))), any1(cp2.MachineTemplate.ReadinessGates), []clusterv1.MachineReadinessGate{{ConditionType: "x"}}},
		"v1beta1 taints":               {obj(m("spec", m("machineTemplate", m("taints", taints)))), any1(cp1.MachineTemplate.Taints), []clusterv1.MachineTaint{{Key: "k", Effect: "NoSchedule"}}},
		"v1beta2 taints":               {obj(m("spec", m("machineTemplate", m("spec", m("taints", taints))))), any1(cp2.MachineTemplate.Taints), []clusterv1.MachineTaint{{Key: "k", Effect: "NoSchedule"}}},
		"v1beta1 rollout after":        {obj(m("spec", m("rolloutAfter", "2026-01-01T00:00:00Z"))), any1(cp1.RolloutAfter), newYear},
		"v1beta2 rollout after":        {obj(m("spec", m("rollout", m("after", "2026-01-01T00:00:00Z")))), any1(cp2.RolloutAfter), newYear},
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

// TestFieldsThatBothVersionsHaveInOnePlace are read by either version.
func TestFieldsThatBothVersionsHaveInOnePlace(t *testing.T) {
	t.Parallel()
	paths := func(v string) []string {
		cluster, host, boot, cp := infraClusters[v], infraMachines[v], bootstrapConfigs[v], controlPlanes[v]
		return []string{
			cluster.ControlPlaneEndpoint.String(), cluster.FailureDomains.String(), host.ProviderID.String(), host.Addresses.String(), host.FailureDomain.String(), host.WantedFailureDomain.String(),
			boot.DataSecretName.String(), cp.ControlPlaneEndpoint.String(), cp.ExternallyManaged.String(), cp.Version.String(), cp.StatusVersion.String(), cp.Replicas.String(),
			cp.StatusReplicas.String(), cp.ReadyReplicas.String(), cp.Selector.String(), cp.MachineTemplate.Metadata.String(),
		}
	}
	want := []string{
		"spec.controlPlaneEndpoint", "status.failureDomains", "spec.providerID", "status.addresses", "status.failureDomain", "spec.failureDomain",
		"status.dataSecretName", "spec.controlPlaneEndpoint", "status.externalManagedControlPlane", "spec.version", "status.version", "spec.replicas",
		"status.replicas", "status.readyReplicas", "status.selector", "spec.machineTemplate.metadata",
	}
	for _, v := range Versions() {
		if diff := cmp.Diff(want, paths(v)); diff != "" {
			t.Errorf("contract %s (-want +got):\n%s", v, diff)
		}
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
	domains := []clusterv1.FailureDomain{{Name: "a", ControlPlane: new(true), Attributes: map[string]string{"k": "v"}}}
	tests := map[string]map[string]any{
		V1Beta1: m(
			"spec", m("controlPlaneEndpoint", m("host", "h", "port", int64(6443)), "replicas", int64(3), "machineTemplate", m(
				"nodeDrainTimeout", "1m30s", "nodeVolumeDetachTimeout", "0s", "nodeDeletionTimeout", "10s", "taints", []any{m("key", "k", "effect", "NoSchedule")}, "readinessGates", []any{m("conditionType", "x")})),
			"status", m("failureDomains", m("a", m("controlPlane", true, "attributes", m("k", "v"))))),
		V1Beta2: m(
			"spec", m("controlPlaneEndpoint", m("host", "h", "port", int64(6443)), "replicas", int64(3), "machineTemplate", m("spec", m(
				"deletion", m("nodeDrainTimeoutSeconds", int64(90), "nodeVolumeDetachTimeoutSeconds", int64(0), "nodeDeletionTimeoutSeconds", int64(10)),
				"taints", []any{m("key", "k", "effect", "NoSchedule")}, "readinessGates", []any{m("conditionType", "x")}))),
			"status", m("failureDomains", []any{m("name", "a", "controlPlane", true, "attributes", m("k", "v"))})),
	}
	for version, want := range tests {
		o, cp, cluster := &unstructured.Unstructured{}, controlPlanes[version], infraClusters[version]
		for name, err := range map[string]error{
			"endpoint": cp.ControlPlaneEndpoint.Set(o, clusterv1.APIEndpoint{Host: "h", Port: 6443}),
			"replicas": cp.Replicas.Set(o, 3),
			"drain":    cp.MachineTemplate.NodeDrainSeconds.Set(o, 90),
			"detach":   cp.MachineTemplate.NodeVolumeDetachSeconds.Set(o, 0),
			"deletion": cp.MachineTemplate.NodeDeletionSeconds.Set(o, 10),
			"taints":   cp.MachineTemplate.Taints.Set(o, []clusterv1.MachineTaint{{Key: "k", Effect: "NoSchedule"}}),
			"gates":    cp.MachineTemplate.ReadinessGates.Set(o, []clusterv1.MachineReadinessGate{{ConditionType: "x"}}),
			"domains":  cluster.FailureDomains.Set(o, domains),
		} {
			if err != nil {
				t.Errorf("contract %s: %s: %v", version, name, err)
			}
		}
		if diff := cmp.Diff(want, o.Object); diff != "" {
			t.Errorf("contract %s (-want +got):\n%s", version, diff)
		}
		if got, _, err := cluster.FailureDomains.Get(o); err != nil || !cmp.Equal(got, domains) {
			t.Errorf("contract %s: failure domains %v, %v", version, got, err)
		}
		if got, _, err := cp.MachineTemplate.NodeDrainSeconds.Get(o); err != nil || got != 90 {
			t.Errorf("contract %s: drain timeout %d, %v", version, got, err)
		}
		o.DeepCopy() // panics on any value that unstructured objects must not hold
	}
}

// TestReferIsWhatEachVersionHas writes a new reference, and replaces an existing one.
func TestReferIsWhatEachVersionHas(t *testing.T) {
	t.Parallel()
	template := obj(nil)
	template.SetAPIVersion("infra.example.com/v1")
	template.SetKind("HostTemplate")
	template.SetNamespace("ns")
	template.SetName("t")
	was := func(apiVersion, kind string) *unstructured.Unstructured {
		ref := m("apiVersion", apiVersion, "kind", kind, "name", "other")
		return obj(m("spec", m("machineTemplate", m("infrastructureRef", ref, "spec", m("infrastructureRef", ref)))))
	}
	old := func(apiVersion string) map[string]any {
		return m("infrastructureRef", m("apiVersion", apiVersion, "kind", "HostTemplate", "namespace", "ns", "name", "t"))
	}
	latest := m("spec", m("infrastructureRef", m("apiGroup", "infra.example.com", "kind", "HostTemplate", "name", "t")))
	for name, tc := range map[string]struct {
		version string
		current *unstructured.Unstructured
		want    map[string]any
	}{
		"v1beta1":                             {V1Beta1, nil, old("infra.example.com/v1")},
		"v1beta1, nothing is referred to yet": {V1Beta1, obj(nil), old("infra.example.com/v1")},
		"v1beta1, it has moved on":            {V1Beta1, was("infra.example.com/v2", "HostTemplate"), old("infra.example.com/v2")},
		"v1beta1, another kind":               {V1Beta1, was("infra.example.com/v2", "VMTemplate"), old("infra.example.com/v1")},
		"v1beta1, another group":              {V1Beta1, was("example.com/v2", "HostTemplate"), old("infra.example.com/v1")},
		"v1beta2":                             {V1Beta2, nil, latest},
		"v1beta2, there is one":               {V1Beta2, was("infra.example.com/v2", "HostTemplate"), latest},
	} {
		o, c := &unstructured.Unstructured{}, controlPlanes[tc.version].MachineTemplate
		if err := c.Refer(o, template, tc.current); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m("spec", m("machineTemplate", tc.want)), o.Object); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if ref, ok, err := c.InfrastructureRef.Get(o); !ok || err != nil || ref != (clusterv1.ContractVersionedObjectReference{APIGroup: "infra.example.com", Kind: "HostTemplate", Name: "t"}) {
			t.Errorf("%s: read as %v, %t, %v", name, ref, ok, err)
		}
	}
	if err := controlPlanes[V1Beta1].MachineTemplate.Refer(&unstructured.Unstructured{}, template, obj(m("spec", m("machineTemplate", m("infrastructureRef", "t"))))); err == nil {
		t.Error("a reference that is none was passed over")
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
