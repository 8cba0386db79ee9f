// SPDX-License-Identifier: Apache-2.0

package desired_test

import (
	"fmt"
	"testing"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/controller/topology/desired"
	"github.com/capstan-dev/capstan/internal/controller/topology/patches"
)

// busy is an environment whose class has thirty patches and forty variables, as classes
// of providers do: half of the patches are enabled by a variable, values are from
// variables and templates, and most patches change several kinds of templates.
func busy(b *testing.B) *world {
	b.Helper()
	w := load(b, "class.yaml")
	for i := range 40 {
		name := fmt.Sprint("v", i)
		w.class.Status.Variables = append(w.class.Status.Variables, clusterv1.ClusterClassStatusVariable{Name: name, Definitions: []clusterv1.ClusterClassStatusVariableDefinition{{From: clusterv1.VariableDefinitionFromInline}}})
		v := clusterv1.ClusterVariable{Name: name}
		v.Value.Raw = fmt.Appendf(nil, `{"enabled": %t, "name": "value-%d", "list": [{"key": "a", "size": %d}, {"key": "b", "size": 2}]}`, i%4 != 0, i, i)
		w.cluster.Spec.Topology.Variables = append(w.cluster.Spec.Topology.Variables, v)
	}
	files := []any{}
	for i := range 10 {
		files = append(files, map[string]any{"path": fmt.Sprint("/etc/file-", i), "content": "some lines of a file\nthat a machine needs\n", "permissions": "0640"})
	}
	for _, template := range []string{"PlaneTemplate/plane", "SeedTemplate/seed"} {
		spec(w, template)["files"] = files
	}
	for i := range 30 {
		enabled := ""
		if i%2 == 0 {
			enabled = fmt.Sprintf(`enabledIf: "{{ if .v%d.enabled }}true{{ end }}"`, i)
		}
		w.class.Spec.Patches = append(w.class.Spec.Patches, *builder.Parse[clusterv1.ClusterClassPatch](b, fmt.Sprintf(`
name: patch-%[1]d
%[2]s
definitions:
- selector: {apiVersion: controlplane.example.com/v1, kind: PlaneTemplate, matchResources: {controlPlane: true}}
  jsonPatches:
  - {op: add, path: /spec/template/spec/name%[1]d, valueFrom: {variable: v%[1]d.name}}
  - {op: add, path: /spec/template/spec/files/-, valueFrom: {template: "path: /etc/{{ .v%[1]d.name }}\ncontent: |\n{{ range .v%[1]d.list }}  {{ .key }}={{ .size }}\n{{ end }}"}}
- selector: {apiVersion: infrastructure.example.com/v1, kind: HostTemplate, matchResources: {controlPlane: true, machineDeploymentClass: {names: ["*"]}}}
  jsonPatches:
  - {op: add, path: /spec/template/spec/name%[1]d, valueFrom: {template: "{{ .builtin.cluster.name }}-{{ .v%[1]d.name }}"}}
- selector: {apiVersion: bootstrap.example.com/v1, kind: SeedTemplate, matchResources: {machineDeploymentClass: {names: ["*"]}}}
  jsonPatches:
  - {op: add, path: /spec/template/spec/label%[1]d, value: {fixed: [1, 2, 3]}}
`, i, enabled)))
	}
	return w
}

// BenchmarkThirtyPatches measures one computation of a Cluster, and one of a class.
func BenchmarkThirtyPatches(b *testing.B) {
	w := busy(b)
	b.Run("a class", func(b *testing.B) {
		for b.Loop() {
			if _, err := patches.Compile(w.class); err != nil {
				b.Fatal(err)
			}
		}
	})
	compute := func(b *testing.B) {
		in := w.input(b)
		for b.Loop() {
			d, err := desired.Compute(in, nil)
			if got := errs(d); err != nil || len(got) > 0 {
				b.Fatal(err, got)
			}
		}
	}
	b.Run("a new Cluster", compute)
	b.Run("a Cluster", func(b *testing.B) {
		w.write(b)
		compute(b)
	})
}
