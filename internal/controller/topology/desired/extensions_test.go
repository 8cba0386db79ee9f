// SPDX-License-Identifier: Apache-2.0

package desired_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/controller/topology/desired"
	"github.com/capstan-dev/capstan/internal/controller/topology/patches"
)

func TestAnExtensionIsAskedTheSameEachTime(t *testing.T) {
	t.Parallel()
	w := load(t, "class.yaml")
	e := &extension{}
	w.ext = e
	external(w, "ext", map[string]string{"b": "2", "a": "1"})
	ask := func() string {
		w.write(t)
		if len(e.asked) != 1 || len(e.judged) != 1 {
			t.Fatalf("asked %d times, for its judgement %d times", len(e.asked), len(e.judged))
		}
		text, err := json.Marshal([]any{e.asked, e.judged})
		if err != nil {
			t.Fatal(err)
		}
		*e = extension{}
		return string(text)
	}
	uids := []types.UID{}
	e.generate = func(q patches.Question) (*hooksv1.GeneratePatchesResponse, error) {
		for _, item := range q.Request.Items {
			uids = append(uids, item.UID)
		}
		return &hooksv1.GeneratePatchesResponse{}, nil
	}
	ask()
	want := []types.UID{"infrastructureCluster", "controlPlane", "controlPlaneMachines", "machineDeploymentBootstrap/md-0", "machineDeploymentInfrastructure/md-0",
		"machineDeploymentBootstrap/md-1", "machineDeploymentInfrastructure/md-1", "machinePoolBootstrap/mp-0", "machinePoolInfrastructure/mp-0"}
	if diff := cmp.Diff(want, uids); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
	first := ask()
	slices.Reverse(w.cluster.Spec.Topology.Workers.MachineDeployments)
	if diff := cmp.Diff(first, ask()); diff != "" {
		t.Errorf("in another order of the topology (-first +second):\n%s", diff)
	}
	// The topology writes its own fields to the Cluster after the first reconcile.
	w.cluster.Labels = map[string]string{clusterv1.ClusterNameLabel: "demo", clusterv1.ClusterTopologyOwnedLabel: ""}
	w.cluster.Annotations = map[string]string{runtimev1.PendingHooksAnnotation: "AfterClusterUpgrade", clusterv1.ClusterTopologyUpgradeStepAnnotation: "v1.33.0"}
	if diff := cmp.Diff(first, ask()); diff != "" {
		t.Errorf("with marks of the topology (-first +second):\n%s", diff)
	}
}

func TestAnExtensionSeesWhoRefersToATemplate(t *testing.T) {
	t.Parallel()
	for contract, field := range map[string]string{"v1beta2": "spec.machineTemplate.spec.infrastructureRef", "v1beta1": "spec.machineTemplate.infrastructureRef"} {
		w := load(t, "class.yaml")
		w.contract = contract
		e := &extension{}
		w.ext = e
		external(w, "ext", nil)
		w.compute(t)
		cluster := hooksv1.HolderReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Namespace: "default", Name: "demo"}
		infra, plane := cluster, cluster
		infra.FieldPath, plane.FieldPath = "spec.infrastructureRef", "spec.controlPlaneRef"
		want := []hooksv1.HolderReference{infra, plane, {APIVersion: "controlplane.example.com/v1", Kind: "Plane", Namespace: "default", Name: "demo-plane", FieldPath: field}}
		for _, g := range [][2]string{{"MachineDeployment", "demo-md-0-big"}, {"MachineDeployment", "demo-md-1-big"}, {"MachinePool", "demo-mp-0-8ddx4"}} {
			for _, field := range []string{"spec.template.spec.bootstrap.configRef", "spec.template.spec.infrastructureRef"} {
				want = append(want, hooksv1.HolderReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: g[0], Namespace: "default", Name: g[1], FieldPath: field})
			}
		}
		var got []hooksv1.HolderReference
		for _, item := range e.asked[0].Request.Items {
			got = append(got, item.HolderReference)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("contract %s (-want +got):\n%s", contract, diff)
		}
	}
}

func TestEachPatchIsValidatedWithItsOwnSettingsAndVariables(t *testing.T) {
	t.Parallel()
	w := load(t, "class.yaml")
	for _, name := range []string{"a", "b"} {
		external(w, name, map[string]string{"of": name})
		w.class.Status.Variables = append(w.class.Status.Variables, clusterv1.ClusterClassStatusVariable{Name: "v-" + name, Definitions: []clusterv1.ClusterClassStatusVariableDefinition{{From: name}}})
		v := clusterv1.ClusterVariable{Name: "v-" + name}
		v.Value.Raw = []byte(`1`)
		w.cluster.Spec.Topology.Variables = append(w.cluster.Spec.Topology.Variables, v)
	}
	e := &extension{}
	w.ext = e
	w.compute(t)
	var got [][]string
	for _, v := range e.judged {
		seen := []string{v.Patch, v.Extension, v.Request.Settings["of"]}
		for _, variable := range v.Request.Variables {
			seen = append(seen, variable.Name)
		}
		got = append(got, seen)
	}
	want := [][]string{{"a", "validate.a", "a", "builtin", "region", "v-a"}, {"b", "validate.b", "b", "builtin", "region", "v-b"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestATopologyThatIsInvalidIsNotWritten(t *testing.T) {
	t.Parallel()
	w := load(t, "class.yaml")
	external(w, "a", nil)
	external(w, "b", nil)
	w.ext = &extension{validate: func(v patches.Validation) error { return errors.New("not " + v.Patch) }}
	_, err := desired.Compute(w.input(t), w.ext)
	if want := "patch \"a\": extension validate.a: not a\npatch \"b\": extension validate.b: not b"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestAnExternalPatchChangesWhatIsMade(t *testing.T) {
	t.Parallel()
	w := load(t, "class.yaml")
	external(w, "ext", nil)
	w.ext = &extension{generate: func(patches.Question) (*hooksv1.GeneratePatchesResponse, error) {
		return &hooksv1.GeneratePatchesResponse{Items: []hooksv1.GeneratePatchesResponseItem{
			{UID: "controlPlane", PatchType: hooksv1.JSONMergePatchType, Patch: []byte(`{"spec":{"template":{"spec":{"replicas":9,"version":"v1.0.0","init":{"args":["c"]}}}}}`)},
			{UID: "machineDeploymentInfrastructure/md-0", PatchType: hooksv1.JSONPatchType, Patch: []byte(`[{"op":"replace","path":"/spec/template/spec/cores","value":1}]`)},
		}}, nil
	}}
	d := w.compute(t)
	for _, c := range []check{
		{plane, "spec init args", []any{"c"}}, {plane, "spec replicas", int64(3)}, {plane, "spec version", "v1.33.0"}, {md0Hosts, "spec template spec cores", int64(1)},
	} {
		if diff := cmp.Diff(c.want, at(t, c.of(t, d), c.path)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.path, diff)
		}
	}
}

func TestExternalPatchWithoutPlaneIsReported(t *testing.T) {
	t.Parallel()
	w := load(t, "class.yaml")
	external(w, "ext", nil)
	want := []string{`patch "ext" is made by extension generate.ext, which can only be asked at a management plane`}
	if diff := cmp.Diff(want, errs(w.compute(t))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUnmatchedPatchIsReported(t *testing.T) {
	t.Parallel()
	w := load(t, "class.yaml")
	w.class.Spec.Patches = append(w.class.Spec.Patches, *builder.Parse[clusterv1.ClusterClassPatch](t, `
name: old
definitions:
- selector: {apiVersion: infrastructure.example.com/v0, kind: HostTemplate, matchResources: {machineDeploymentClass: {names: [big]}}}
  jsonPatches: [{op: remove, path: /spec/template/spec/cores}]
- selector: {apiVersion: infrastructure.example.com/v0, kind: HostTemplate, matchResources: {machineDeploymentClass: {names: [unused]}}}
  jsonPatches: [{op: remove, path: /spec/template/spec/cores}]`))
	d := w.compute(t)
	want := []string{`patch "old", definitions[0]: no template that it selects by role is a HostTemplate of infrastructure.example.com/v0: correct kind or apiVersion`}
	if diff := cmp.Diff(want, d.Unmatched); diff != "" || len(errs(d)) > 0 {
		t.Errorf("(-want +got):\n%s, errors %v", diff, errs(d))
	}
}
