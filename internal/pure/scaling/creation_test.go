// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/machinetemplate"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

func TestNeeded(t *testing.T) {
	t.Parallel()
	sick := with(healthyOne("a"), clusterv1.MachineOwnerRemediatedCondition, metav1.ConditionFalse)
	going := with(deletingOne("a"), clusterv1.MachineOwnerRemediatedCondition, metav1.ConditionFalse)
	for name, tc := range map[string]struct {
		machines, orphans []*clusterv1.Machine
		want              bool
	}{
		"one is missing":                      {nil, nil, true},
		"none is missing":                     {machines(healthyOne("a")), nil, false},
		"the missing one may be adopted":      {nil, machines(healthyOne("a")), false},
		"one must be replaced":                {machines(sick), nil, true},
		"the one to be replaced goes already": {machines(going), nil, false},
	} {
		if got := Needed(tc.machines, tc.orphans, 1); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

// plane is a control plane object with a version, that runs others.
func plane(version string, running ...any) reference.Object {
	var versions []any
	for _, v := range running {
		versions = append(versions, map[string]any{"version": v, "replicas": int64(1)})
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"version": version}, "status": map[string]any{"versions": versions}}}
	obj.SetKind("Plane")
	obj.SetNamespace("ns")
	obj.SetName("cp")
	return reference.Object{Ref: clusterv1.ContractVersionedObjectReference{APIGroup: "x.io", Kind: "Plane", Name: "cp"}, Obj: obj}
}

func TestBlockers(t *testing.T) {
	t.Parallel()
	ref := func(kind string) clusterv1.ContractVersionedObjectReference {
		return clusterv1.ContractVersionedObjectReference{APIGroup: "x.io", Kind: kind, Name: "t"}
	}
	const missing = "HostTemplate t, named by spec.template.spec.infrastructureRef, does not exist: create it, or correct the reference"
	tests := map[string]struct {
		change  func(*Creation)
		want    []string
		wantErr string
	}{
		"nothing":                           {change: func(*Creation) {}},
		"no Cluster":                        {func(c *Creation) { c.Cluster = nil }, []string{"Cluster demo, named by spec.clusterName, does not exist: create it, or correct the field"}, ""},
		"a Cluster without a control plane": {change: func(c *Creation) { c.ControlPlane = reference.Object{} }},
		"a Cluster that is being deleted":   {change: func(c *Creation) { c.Cluster.DeletionTimestamp = &metav1.Time{} }},
		"one that really is":                {func(c *Creation) { c.Cluster.DeletionTimestamp = new(metav1.Now()) }, []string{"Cluster c is being deleted"}, ""},
		"the annotation": {func(c *Creation) {
			c.Set.Annotations = map[string]string{clusterv1.DisableMachineCreateAnnotation: "true"}
		}, []string{"annotation cluster.x-k8s.io/disable-machine-create is set"}, ""},
		"the annotation, with another value": {change: func(c *Creation) {
			c.Set.Annotations = map[string]string{clusterv1.DisableMachineCreateAnnotation: "no"}
		}},
		"a missing template": {func(c *Creation) { c.Infrastructure.Obj, c.Infrastructure.Missing = nil, true }, []string{missing}, ""},
		"all that is wrong, in order": {
			func(c *Creation) {
				c.Bootstrap = reference.Object{Err: "spec.template.spec.bootstrap.configRef: held"}
				c.Infrastructure.Obj, c.Infrastructure.Missing = nil, true
				c.Set.Spec.Template.Spec.Bootstrap = clusterv1.Bootstrap{}
				c.ControlPlane.Obj, c.ControlPlane.Missing = nil, true
			},
			[]string{
				"spec.template.spec.bootstrap.configRef: held", missing,
				"spec.template.spec.bootstrap has neither configRef nor dataSecretName",
				"Plane cp, the control plane of Cluster c, does not exist: create it, or correct spec.controlPlaneRef of the Cluster",
			}, "",
		},
		"data without a config":            {change: func(c *Creation) { c.Set.Spec.Template.Spec.Bootstrap = clusterv1.Bootstrap{DataSecretName: new("s")} }},
		"a control plane that is not read": {func(c *Creation) { c.ControlPlane = reference.Object{Err: "get Plane ns/cp: timeout"} }, []string{"get Plane ns/cp: timeout"}, ""},
		"a control plane being made":       {func(c *Creation) { c.ControlPlane = plane("v1.36.0") }, []string{"Plane cp is provisioning (\"ControlPlaneIsStable\" preflight check failed)"}, ""},
		"a control plane being upgraded":   {func(c *Creation) { c.ControlPlane = plane("v1.36.0", "v1.35.0") }, []string{"Plane cp is upgrading (\"ControlPlaneIsStable\" preflight check failed)"}, ""},
		"a control plane that is about to be upgraded": {
			func(c *Creation) {
				c.Cluster.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: "v1.37.0"}
			},
			[]string{"Plane cp has a pending version upgrade to v1.37.0 (\"ControlPlaneIsStable\" preflight check failed)"}, "",
		},
		"a step of an upgrade that it has reached": {change: func(c *Creation) {
			c.Cluster.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: "v1.38.0"}
			c.Cluster.Annotations = map[string]string{clusterv1.ClusterTopologyUpgradeStepAnnotation: "v1.36.0"}
		}},
		"a check that the set skips": {change: func(c *Creation) {
			c.ControlPlane = plane("v1.36.0")
			c.Set.Annotations = skipping("ControlPlaneIsStable")
		}},
		"a check that the bootstrap template skips": {change: func(c *Creation) {
			c.ControlPlane = plane("v1.36.0")
			c.Bootstrap.Obj.SetAnnotations(skipping("ControlPlaneIsStable"))
		}},
		"kubeadm of another minor version": {
			func(c *Creation) { c.Set.Spec.Template.Spec.Version = "v1.35.0" },
			[]string{"kubeadm of version v1.35.0 joins only a control plane of the same minor version, not v1.36.0 (\"KubeadmVersionSkew\" preflight check failed)"}, "",
		},
		"a contract that is not known": {
			func(c *Creation) { c.Contract = "v9" },
			[]string{`contract version "v9" of control planes is not supported: use one of v1beta2, v1beta1`}, `contract version "v9" of control planes is not supported: use one of v1beta2, v1beta1`,
		},
		"a managed control plane that names only its minor version": {change: func(c *Creation) { c.ControlPlane = plane("v1.36", "1.36") }},
		"a version that is none, with all checks skipped": {change: func(c *Creation) {
			c.ControlPlane = plane("latest", "latest")
			c.Set.Annotations = skipping("All")
		}},
		"a version that is none": {
			func(c *Creation) { c.ControlPlane = plane("latest", "latest") },
			[]string{`read spec.version of Plane cp: could not parse "latest" as version`}, `read spec.version of Plane cp: could not parse "latest" as version`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := Creation{
				Set:            &clusterv1.MachineSet{Spec: clusterv1.MachineSetSpec{ClusterName: "demo"}},
				Cluster:        &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c"}},
				Bootstrap:      reference.Object{Ref: ref("KubeadmConfigTemplate"), Obj: &unstructured.Unstructured{Object: map[string]any{}}},
				Infrastructure: reference.Object{Ref: ref("HostTemplate"), Field: "spec.template.spec.infrastructureRef", Obj: &unstructured.Unstructured{}},
				ControlPlane:   plane("v1.36.0", "v1.36.0"), Contract: "v1beta2",
			}
			c.Set.Spec.Template.Spec = clusterv1.MachineSpec{Version: "v1.36.0", Bootstrap: clusterv1.Bootstrap{ConfigRef: ref("KubeadmConfigTemplate")}}
			tc.change(&c)
			got, err := c.Blockers()
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("blockers (-want +got):\n%s", diff)
			}
			if (err == nil) != (tc.wantErr == "") || err != nil && err.Error() != tc.wantErr {
				t.Errorf("error %v, want %q", err, tc.wantErr)
			}
		})
	}
}

func skipping(checks string) map[string]string {
	return map[string]string{clusterv1.MachineSetSkipPreflightChecksAnnotation: checks}
}

func TestMachineTemplate(t *testing.T) {
	t.Parallel()
	spec := clusterv1.MachineSpec{ClusterName: "ignored", Version: "v1.36.0", MinReadySeconds: new(int32(3))}
	set := &clusterv1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: strings.Repeat("long", 20), UID: "uid", Labels: map[string]string{
			clusterv1.MachineDeploymentNameLabel: "md", "other": "of the set alone",
		}},
		Spec: clusterv1.MachineSetSpec{ClusterName: "c", Template: clusterv1.MachineTemplateSpec{
			ObjectMeta: clusterv1.ObjectMeta{
				Labels:      map[string]string{"app": "x", clusterv1.ClusterNameLabel: "forged", clusterv1.MachineSetNameLabel: "forged"},
				Annotations: map[string]string{"note": "1"},
			},
			Spec: spec,
		}},
	}
	before := set.DeepCopy()
	want := machinetemplate.Template{
		Maker:       metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineSet", Name: set.Name, UID: "uid"},
		Namespace:   "ns",
		Annotations: map[string]string{"note": "1"},
		Labels: map[string]string{
			"app": "x", clusterv1.ClusterNameLabel: "c", clusterv1.MachineDeploymentNameLabel: "md", clusterv1.MachineSetNameLabel: "hash_ekz2lQ_z",
		},
		Spec: spec,
	}
	want.Spec.ClusterName = "c"
	if diff := cmp.Diff(want, MachineTemplate(set)); diff != "" {
		t.Errorf("template (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, set); diff != "" {
		t.Errorf("the set has changed (-want +got):\n%s", diff)
	}
}
