// SPDX-License-Identifier: Apache-2.0

package desired_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/controller/topology/desired"
	"github.com/capstan-dev/capstan/internal/controller/topology/upgrade"
)

// spec is the part of a template that machines are made from.
func spec(w *world, template string) map[string]any {
	return w.templates[template].Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
}

// hostsOf are the template's name and those that the groups refer to.
func hostsOf(t testing.TB, d desired.Desired) (template, referred string) {
	t.Helper()
	referred, _ = at(t, md0(t, d), "spec template spec infrastructureRef name").(string)
	return deployment(t, d, "md-0").Hosts.GetName(), referred
}

func TestATemplateIsReplacedWhenItsSpecChanges(t *testing.T) {
	t.Parallel()
	w := load(t, "class.yaml")
	first, referred := hostsOf(t, w.write(t))
	if first != referred {
		t.Fatalf("the template %s is not what is referred to: %s", first, referred)
	}
	named := func(what string, same bool) string {
		t.Helper()
		before := w.current.Deployments["md-0"].Hosts.GetName()
		name, referred := hostsOf(t, w.write(t))
		if name != referred || (name == before) != same {
			t.Errorf("%s: the template was %s, is %s, and %s is referred to", what, before, name, referred)
		}
		return name
	}
	named("nothing changed", true)
	w.templates["HostTemplate/big-hosts"].SetLabels(map[string]string{"new": "1"})
	named("metadata changed", true)
	spec(w, "HostTemplate/big-hosts")["cores"] = int64(16)
	second := named("the spec changed", false)
	spec(w, "HostTemplate/big-hosts")["cores"] = int64(8)
	if again := named("the spec changed back", false); again != first {
		t.Errorf("it is %s, and was %s with that spec", again, first)
	}
	w.cluster.Spec.Topology.Variables[0].Value.Raw = []byte(`"west"`)
	named("a variable changed that another group has its own value for", true)
	group0(w).Variables.Overrides[0].Value.Raw = []byte(`"east"`)
	named("a variable changed", false)
	// A manual change of the template in use is reverted.
	used := w.current.Deployments["md-0"].Hosts
	if err := unstructured.SetNestedField(used.Object, int64(1), "spec", "template", "spec", "cores"); err != nil {
		t.Fatal(err)
	}
	named("the template was changed by hand", true)
	if cores := at(t, w.current.Deployments["md-0"].Hosts, "spec template spec cores"); cores != int64(8) {
		t.Errorf("it has %v cores", cores)
	}
	if n := len(slices.Compact(slices.Sorted(slices.Values([]string{first, second})))); n != 2 {
		t.Error("two specs have one name")
	}
}

// TestAVersionThatAControlPlaneMovedOnToStays, though the class names an older one:
// in a rotation of the template, too.
func TestAVersionThatAControlPlaneMovedOnToStays(t *testing.T) {
	t.Parallel()
	w := load(t, "class.yaml")
	w.contract = contract.V1Beta1
	w.write(t)
	ref := w.current.ControlPlane.Object["spec"].(map[string]any)["machineTemplate"].(map[string]any)["infrastructureRef"].(map[string]any)
	ref["apiVersion"] = "infrastructure.example.com/v2"
	spec(w, "HostTemplate/plane-hosts")["cores"] = int64(16)
	d := w.write(t)
	want := map[string]any{"apiVersion": "infrastructure.example.com/v2", "kind": "HostTemplate", "namespace": "default", "name": d.ControlPlane.Hosts.GetName()}
	if diff := cmp.Diff(want, at(t, d.ControlPlane.Object, "spec machineTemplate infrastructureRef")); diff != "" {
		t.Errorf("the reference (-want +got):\n%s", diff)
	}
	if ref["name"] == want["name"] || d.ControlPlane.Hosts.GetAPIVersion() != "infrastructure.example.com/v1" {
		t.Errorf("the template %s is %s, and was %v", want["name"], d.ControlPlane.Hosts.GetAPIVersion(), ref["name"])
	}
}

func TestWhatIsTheSameToTheServerIsNoOtherTemplate(t *testing.T) {
	t.Parallel()
	w := load(t, "class.yaml")
	first, _ := hostsOf(t, w.write(t))
	asked := 0
	w.same = func(current, wanted *unstructured.Unstructured) (bool, error) {
		asked++
		if current.GetName() != wanted.GetName() {
			t.Errorf("%s is compared with %s", current.GetName(), wanted.GetName())
		}
		return true, nil
	}
	spec(w, "HostTemplate/big-hosts")["cores"] = "8"
	if name, _ := hostsOf(t, w.compute(t)); name != first || asked != 5 {
		t.Errorf("it is %s, was %s; %d of 5 templates compared", name, first, asked)
	}
	// A server that never stores what it is sent must not cause endless replacement of
	// machines.
	w.same = func(_, _ *unstructured.Unstructured) (bool, error) { return false, nil }
	changed, _ := hostsOf(t, w.write(t))
	if name, _ := hostsOf(t, w.write(t)); changed == first || name != changed {
		t.Errorf("it was %s, is %s, and then %s", first, changed, name)
	}
	w.same = func(_, _ *unstructured.Unstructured) (bool, error) { return false, errors.New("no schema") }
	d := w.compute(t)
	if g := deployment(t, d, "md-0"); g.Err == nil || g.Err.Error() != "MachineDeployment md-0 of the topology: no schema" || g.Object == nil {
		t.Errorf("got %v", g.Err)
	}
}

// TestNamesOfTemplatesInTemplatesSettle: a value that a patch derives from the name of a
// template must not cause another replacement of machines, once the name is final.
func TestNamesOfTemplatesInTemplatesSettle(t *testing.T) {
	t.Parallel()
	w := load(t, "class.yaml")
	w.class.Spec.Patches = *builder.Parse[[]clusterv1.ClusterClassPatch](t, `
- name: names
  definitions:
  - selector: {apiVersion: infrastructure.example.com/v1, kind: HostTemplate, matchResources: {machineDeploymentClass: {names: [big]}}}
    jsonPatches: [{op: add, path: /spec/template/spec/me, valueFrom: {variable: builtin.machineDeployment.infrastructureRef.name}}]
  - selector: {apiVersion: bootstrap.example.com/v1, kind: SeedTemplate, matchResources: {machineDeploymentClass: {names: [big]}}}
    jsonPatches: [{op: add, path: /spec/template/spec/hosts, valueFrom: {template: "x-{{ .builtin.machineDeployment.infrastructureRef.name }}"}}]
  - selector: {apiVersion: controlplane.example.com/v1, kind: PlaneTemplate, matchResources: {controlPlane: true}}
    jsonPatches: [{op: add, path: /spec/template/spec/hosts, valueFrom: {variable: builtin.controlPlane.machineTemplate.infrastructureRef.name}}]
`)
	settled := func(what string) {
		t.Helper()
		d := w.write(t)
		name, _ := hostsOf(t, d)
		for path, got := range map[string]any{
			"itself":        at(t, md0Hosts(t, d), "spec template spec me"),
			"bootstrap":     strings.TrimPrefix(at(t, deployment(t, d, "md-0").Bootstrap, "spec template spec hosts").(string), "x-"),
			"control plane": at(t, d.ControlPlane.Object, "spec hosts"),
		} {
			want := name
			if path == "control plane" {
				want = d.ControlPlane.Hosts.GetName()
			}
			if got != want {
				t.Errorf("%s, in %s: %v, want %s", what, path, got, want)
			}
		}
		if diff := cmp.Diff(d.Objects(), w.compute(t).Objects()); diff != "" {
			t.Errorf("%s: it is another the next time (-first +next):\n%s", what, diff)
		}
	}
	settled("new")
	spec(w, "HostTemplate/big-hosts")["cores"] = int64(16)
	spec(w, "HostTemplate/plane-hosts")["cores"] = int64(16)
	settled("changed")
}

func TestNamesOfWhatIsOnItsWayOutAreNotUsed(t *testing.T) {
	t.Parallel()
	w := load(t, "class.yaml")
	first := w.compute(t)
	for _, o := range first.Objects() {
		w.current.Deleting = append(w.current.Deleting, o.GetKind()+"/"+o.GetName())
	}
	w.class.Spec.Workers.MachineDeployments[0].Naming.Template = ""
	w.class.Spec.ControlPlane.Naming.Template = ""
	second := w.compute(t)
	for _, o := range second.Objects() {
		if slices.Contains(w.current.Deleting, o.GetKind()+"/"+o.GetName()) {
			t.Errorf("%s %s is on its way out", o.GetKind(), o.GetName())
		}
	}
	w.class.Spec.ControlPlane.Naming.Template = "plane"
	w.current.Deleting = append(w.current.Deleting, "Plane/plane")
	want := []string{"control plane of the topology: the Plane plane with the same name is still being deleted: a new one is created after that"}
	if diff := cmp.Diff(want, errs(w.compute(t))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOnePartThatFailsDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		edit  func(*testing.T, *world)
		want  string
		parts int // written when nothing exists, of five
	}{
		"no template of infrastructure":        {func(_ *testing.T, w *world) { delete(w.templates, "FarmClusterTemplate/farm") }, "infrastructure of the topology: there is no FarmClusterTemplate farm", 4},
		"no template of the control plane":     {func(_ *testing.T, w *world) { delete(w.templates, "PlaneTemplate/plane") }, "control plane of the topology: there is no PlaneTemplate plane", 4},
		"no template of its hosts":             {func(_ *testing.T, w *world) { delete(w.templates, "HostTemplate/plane-hosts") }, "control plane of the topology: there is no HostTemplate plane-hosts", 4},
		"no template of workers":               {func(_ *testing.T, w *world) { delete(w.templates, "PondTemplate/pond") }, "MachinePool mp-0 of the topology: there is no PondTemplate pond", 4},
		"a class of workers that is not there": {func(_ *testing.T, w *world) { group0(w).Class = "small" }, `MachineDeployment md-0 of the topology: ClusterClass classes/everything has no class "small" in spec.workers.machineDeployments: correct its class, or add it there`, 4},
		"a template of names that is broken":   {func(_ *testing.T, w *world) { w.class.Spec.Infrastructure.Naming.Template = "{{ .x }}" }, `infrastructure of the topology: its name: can use .cluster.name and .random: template: name:1:3: executing "name" at <.x>: map has no entry for key "x"`, 4},
		"a name that is none":                  {func(_ *testing.T, w *world) { w.class.Spec.Infrastructure.Naming.Template = "A" }, `infrastructure of the topology: it cannot be named "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*'): correct naming.template in the ClusterClass`, 4},
		"two groups of one name": {func(_ *testing.T, w *world) {
			w.class.Spec.Workers.MachineDeployments[0].Naming.Template = "{{ .cluster.name }}"
		}, "MachineDeployment md-0 of the topology: its name demo is that of MachineDeployment md-1 of the topology: have naming.template of its class use the name in the topology, or .random", 4},
		"a patch of one group": {func(t *testing.T, w *world) {
			w.class.Spec.Patches = *builder.Parse[[]clusterv1.ClusterClassPatch](t, `
- name: p
  enabledIf: '{{ eq .builtin.machineDeployment.topologyName "md-0" }}'
  definitions:
  - selector: {apiVersion: infrastructure.example.com/v1, kind: HostTemplate, matchResources: {machineDeploymentClass: {names: [big]}}}
    jsonPatches: [{op: remove, path: /spec/template/spec/none}]`)
		}, `MachineDeployment md-0 of the topology: HostTemplate classes/big-hosts: patch "p", definitions[0]: remove /spec/template/spec/none: it does not apply to the template: there is no /spec/template/spec/none: have the template set it, or have enabledIf ask for it`, 4},
		"a template that is none": {func(_ *testing.T, w *world) { w.templates["PlaneTemplate/plane"].SetKind("Plane") }, "control plane of the topology: Plane plane: the kind of a template ends in Template: correct the reference in the ClusterClass", 4},
		"a template that is not as it should be": {func(_ *testing.T, w *world) {
			spec(w, "PlaneTemplate/plane")["machineTemplate"] = "x"
		}, "control plane of the topology: read spec.machineTemplate.metadata of Plane demo-plane: .spec.machineTemplate.metadata accessor error: x is of the type string, expected map[string]interface{}", 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := load(t, "class.yaml")
			tc.edit(t, w)
			d := w.compute(t)
			if diff := cmp.Diff([]string{tc.want}, errs(d)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if n := len(written(d)); n != tc.parts {
				t.Errorf("%d parts are written, want %d", n, tc.parts)
			}
		})
	}
}

// written are the parts that are written.
func written(d desired.Desired) (out []desired.Part) {
	parts := []desired.Part{d.Infrastructure, d.ControlPlane.Part}
	for _, g := range slices.Concat(d.Deployments, d.Pools) {
		parts = append(parts, g.Part)
	}
	return slices.DeleteFunc(parts, func(p desired.Part) bool { return p.Object == nil })
}

func TestAPartMayNotBecomeSomethingElse(t *testing.T) {
	t.Parallel()
	rename := func(w *world, template, kind string) {
		w.templates[template].SetKind(kind)
		w.templates[kind+"/"+w.templates[template].GetName()] = w.templates[template]
	}
	for name, tc := range map[string]struct {
		edit func(*world)
		want string
	}{
		"infrastructure": {func(w *world) {
			rename(w, "FarmClusterTemplate/farm", "CloudClusterTemplate")
			w.class.Spec.Infrastructure.TemplateRef.Kind = "CloudClusterTemplate"
		}, "infrastructure of the topology: FarmCluster.infrastructure.example.com default/demo-infra-ht4x8 cannot become a CloudCluster"},
		"infrastructure that has yet to be made": {func(w *world) {
			w.current.Infrastructure = nil
			w.cluster.Spec.InfrastructureRef.Kind = "CloudCluster"
		}, "infrastructure of the topology: CloudCluster.infrastructure.example.com default/demo-infra-ht4x8 cannot become a FarmCluster"},
		"control plane": {func(w *world) {
			rename(w, "PlaneTemplate/plane", "JetTemplate")
			w.class.Spec.ControlPlane.TemplateRef.Kind = "JetTemplate"
		}, "control plane of the topology: Plane.controlplane.example.com default/demo-plane cannot become a Jet"},
		"hosts of the control plane": {func(w *world) {
			rename(w, "HostTemplate/plane-hosts", "BoxTemplate")
			w.class.Spec.ControlPlane.MachineInfrastructure.TemplateRef.Kind = "BoxTemplate"
		}, "control plane of the topology: HostTemplate.infrastructure.example.com default/demo-f9jgt cannot become a BoxTemplate"},
		"hosts of workers": {func(w *world) {
			rename(w, "HostTemplate/big-hosts", "BoxTemplate")
			w.class.Spec.Workers.MachineDeployments[0].Infrastructure.TemplateRef.Kind = "BoxTemplate"
		}, "cannot become a BoxTemplate"},
		"hosts of a pool": {func(w *world) {
			rename(w, "PondTemplate/pond", "LakeTemplate")
			w.class.Spec.Workers.MachinePools[0].Infrastructure.TemplateRef.Kind = "LakeTemplate"
		}, "MachinePool mp-0 of the topology: Pond.infrastructure.example.com default/demo-mp-0-2lqm9 cannot become a Lake"},
	} {
		w := load(t, "class.yaml")
		w.class.Spec.Patches = nil
		w.write(t)
		tc.edit(w)
		d := w.compute(t)
		if got := strings.Join(errs(d), "\n"); !strings.Contains(got, tc.want) || !strings.Contains(got, "have the ClusterClass refer to a template of") {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
		for _, o := range d.Objects() {
			if slices.Contains([]string{"CloudCluster", "Jet", "BoxTemplate", "Lake"}, o.GetKind()) {
				t.Errorf("%s: %s %s is written", name, o.GetKind(), o.GetName())
			}
		}
	}
	// A change of the class can select another bootstrap provider for a
	// MachineDeployment.
	w := load(t, "class.yaml")
	w.write(t)
	rename(w, "SeedTemplate/seed", "SproutTemplate")
	w.class.Spec.Workers.MachineDeployments[0].Bootstrap.TemplateRef.Kind = "SproutTemplate"
	w.cluster.Spec.Topology.Workers.MachinePools = nil
	if d := w.compute(t); len(errs(d)) > 0 || at(t, md0(t, d), "spec template spec bootstrap configRef kind") != "SproutTemplate" {
		t.Errorf("another kind of bootstrap: %v", errs(d))
	}
	// A newer version of a kind is the same kind.
	w = load(t, "class.yaml")
	w.class.Spec.Patches = nil
	before := w.write(t)
	for _, template := range w.templates {
		template.SetAPIVersion(strings.Replace(template.GetAPIVersion(), "/v1", "/v2", 1))
	}
	d := w.compute(t)
	if got := errs(d); len(got) > 0 || d.Infrastructure.Object.GetAPIVersion() != "infrastructure.example.com/v2" || d.InfrastructureRef != before.InfrastructureRef {
		t.Errorf("a newer version: %v, %s", got, d.Infrastructure.Object.GetAPIVersion())
	}
}

func TestAVersionIsThatOfThePlan(t *testing.T) {
	t.Parallel()
	w := load(t, "class.yaml")
	decide(w, "v1.33.0", upgrade.Current)
	w.plan.ControlPlane = upgrade.Decision{Version: "v1.34.0", State: upgrade.Upgrade}
	w.plan.Workers[upgrade.GroupKey{Kind: upgrade.MachinePool, Name: "mp-0"}] = upgrade.Decision{Version: "v1.32.0", State: upgrade.Upgrade}
	d := w.compute(t)
	for _, c := range []check{
		{plane, "spec version", "v1.34.0"}, {plane, "spec args version", "v1.34.0"}, {md0, "spec template spec version", "v1.33.0"}, {pool, "spec template spec version", "v1.32.0"},
	} {
		if diff := cmp.Diff(c.want, at(t, c.of(t, d), c.path)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.path, diff)
		}
	}
}
