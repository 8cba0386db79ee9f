// SPDX-License-Identifier: Apache-2.0

package patches_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/controller/topology/patches"
)

// class has patches, and the variables a, list and map defined inline, and theirs
// by the patch ext.
func class(t testing.TB, text string) *clusterv1.ClusterClass {
	t.Helper()
	c := &clusterv1.ClusterClass{}
	if err := yaml.UnmarshalStrict([]byte(text), &c.Spec.Patches); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "list", "map", "none"} {
		c.Status.Variables = append(c.Status.Variables, clusterv1.ClusterClassStatusVariable{Name: name, Definitions: []clusterv1.ClusterClassStatusVariableDefinition{{From: clusterv1.VariableDefinitionFromInline}}})
	}
	c.Status.Variables = append(c.Status.Variables, clusterv1.ClusterClassStatusVariable{Name: "theirs", Definitions: []clusterv1.ClusterClassStatusVariableDefinition{{From: "ext"}}})
	return c
}

func value(name, text string) clusterv1.ClusterVariable {
	return clusterv1.ClusterVariable{Name: name, Value: apiextensionsv1.JSON{Raw: []byte(text)}}
}

func object(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(u)
	if err != nil {
		t.Fatal(err)
	}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u
}

const controlPlanes = "{apiVersion: cp/v1, kind: PlaneTemplate, matchResources: {controlPlane: true}}"

// input is a Cluster with a control plane, whose template has x, and workers of the
// class big.
func input(t testing.TB) patches.Input {
	t.Helper()
	template := object(t, "{apiVersion: cp/v1, kind: PlaneTemplate, metadata: {name: cp, namespace: ns, uid: u, resourceVersion: '1', labels: {mine: '1'}}, spec: {template: {metadata: {labels: {own: '1'}}, spec: {x: 1, list: [a, b], replicas: 7}}}}")
	desired := object(t, "{apiVersion: cp/v1, kind: Plane, metadata: {name: c-cp, namespace: ns, labels: {cluster.x-k8s.io/cluster-name: c, own: '1'}, annotations: {cluster.x-k8s.io/cloned-from-name: cp}}, spec: {x: 1, list: [a, b], replicas: 3, version: v1.33.0}}")
	hosts := object(t, "{apiVersion: infra/v1, kind: HostTemplate, metadata: {name: h, namespace: ns}, spec: {template: {spec: {size: 1}}}}")
	copied := hosts.DeepCopy()
	copied.SetName("c-md-0-abcde")
	copied.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": "c"})
	return patches.Input{
		Builtins:  hooksv1.Builtins{Cluster: &hooksv1.ClusterBuiltins{Name: "c", Namespace: "ns"}},
		Variables: []clusterv1.ClusterVariable{value("a", `"A"`), value("list", `[{"n":1},{"n":2}]`), value("map", `{"k":{"l":true}}`), value("theirs", `"T"`)},
		Items: []patches.Item{
			{
				Role: patches.ControlPlane, Template: template, Desired: desired, Contract: "v1beta2",
				Holder:   hooksv1.HolderReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Namespace: "ns", Name: "c"},
				Builtins: patches.ControlPlaneBuiltins(patches.Group{Name: "c-cp", Version: "v1.33.0", Replicas: new(int32(3))}),
			},
			{
				Role: patches.DeploymentInfrastructure, Group: "md-0", Class: "big", Template: hosts, Desired: copied,
				Holder:    hooksv1.HolderReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineDeployment", Namespace: "ns", Name: "c-md-0"},
				Builtins:  patches.MachineDeploymentBuiltins(patches.Group{Name: "c-md-0", Version: "v1.32.0", TopologyName: "md-0", Class: "big"}),
				Overrides: []clusterv1.ClusterVariable{value("a", `"B"`)},
			},
		},
	}
}

func begin(t testing.TB, of string) *patches.Run {
	t.Helper()
	c, err := patches.Compile(class(t, of))
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Begin(input(t))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// finish returns the results, and the errors, by item.
func finish(t testing.TB, r *patches.Run) (out []patches.Result, errs []string) {
	t.Helper()
	if q, err := r.Next(); err != nil || q != nil {
		t.Fatalf("asks %v, %v", q, err)
	}
	out, err := r.Finish()
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range out {
		errs = append(errs, "")
		if each.Err != nil {
			errs[len(errs)-1] = each.Err.Error()
		}
	}
	return out, errs
}

func definition(selector, operations string) string {
	return "[{name: p, definitions: [{selector: " + selector + ", jsonPatches: [" + operations + "]}]}]"
}

func TestInlinePatches(t *testing.T) {
	t.Parallel()
	plane := func(op string) string { return definition(controlPlanes, op) }
	hosts := func(names, op string) string {
		return definition("{apiVersion: infra/v1, kind: HostTemplate, matchResources: {machineDeploymentClass: {names: "+names+"}}}", op)
	}
	const setSize = "{op: replace, path: /spec/template/spec/size, value: 2}"
	tests := map[string]struct{ patches, plane, hosts string }{
		"nothing":                             {`[]`, `{"list":["a","b"],"replicas":3,"version":"v1.33.0","x":1}`, `{"size":1}`},
		"a literal":                           {plane("{op: replace, path: /spec/template/spec/x, value: {z: [1]}}"), `{"list":["a","b"],"replicas":3,"version":"v1.33.0","x":{"z":[1]}}`, `{"size":1}`},
		"all of spec":                         {plane("{op: add, path: /spec, value: {template: {spec: {}}}}, {op: add, path: /spec/template/spec/x, value: 2}"), `{"replicas":3,"version":"v1.33.0","x":2}`, `{"size":1}`},
		"all of spec, and nothing below":      {plane("{op: replace, path: /spec, value: {}}"), `{"list":["a","b"],"replicas":3,"version":"v1.33.0","x":1}`, `{"size":1}`},
		"all of spec.template":                {hosts("[big]", "{op: replace, path: /spec/template, value: {spec: {size: 3}}}"), `{"list":["a","b"],"replicas":3,"version":"v1.33.0","x":1}`, `{"size":3}`},
		"a field that no patch changes":       {plane("{op: add, path: /spec/other, value: 1}"), `{"list":["a","b"],"replicas":3,"version":"v1.33.0","x":1}`, `{"size":1}`},
		"an item of a list":                   {plane("{op: add, path: /spec/template/spec/list/0, value: c}, {op: add, path: /spec/template/spec/list/-, value: d}, {op: remove, path: /spec/template/spec/list/1}"), `{"list":["c","b","d"],"replicas":3,"version":"v1.33.0","x":1}`, `{"size":1}`},
		"items of a list in their place":      {plane("{op: replace, path: /spec/template/spec/list/1, value: {k: []}}, {op: add, path: /spec/template/spec/list/1/k/0, value: {l: 1}}, {op: add, path: /spec/template/spec/list/1/k/0/m, value: 2}, {op: add, path: /spec/template/spec/list/2, value: z}"), `{"list":["a",{"k":[{"l":1,"m":2}]},"z"],"replicas":3,"version":"v1.33.0","x":1}`, `{"size":1}`},
		"names with slashes and tildes":       {plane("{op: add, path: /spec/template/spec/a~1b~01, value: 1}"), `{"a/b~1":1,"list":["a","b"],"replicas":3,"version":"v1.33.0","x":1}`, `{"size":1}`},
		"a value is each time one of its own": {plane("{op: add, path: /spec/template/spec/v, valueFrom: {variable: map}}, {op: add, path: /spec/template/spec/v/w, value: 1}, {op: add, path: /spec/template/spec/x, valueFrom: {variable: map}}"), `{"list":["a","b"],"replicas":3,"v":{"k":{"l":true},"w":1},"version":"v1.33.0","x":{"k":{"l":true}}}`, `{"size":1}`},
		"a path of a variable":                {plane("{op: add, path: /spec/template/spec/v, valueFrom: {variable: 'list[1].n'}}"), `{"list":["a","b"],"replicas":3,"v":2,"version":"v1.33.0","x":1}`, `{"size":1}`},
		"a builtin":                           {plane("{op: add, path: /spec/template/spec/v, valueFrom: {variable: builtin.controlPlane.replicas}}"), `{"list":["a","b"],"replicas":3,"v":3,"version":"v1.33.0","x":1}`, `{"size":1}`},
		"a template":                          {plane("{op: add, path: /spec/template/spec/v, valueFrom: {template: '{{ .builtin.cluster.name }}-{{ .a }}'}}"), `{"list":["a","b"],"replicas":3,"v":"c-A","version":"v1.33.0","x":1}`, `{"size":1}`},
		"a template of YAML":                  {plane("{op: add, path: /spec/template/spec/v, valueFrom: {template: \"k: [{{ .a }}, true]\\nl: 010\"}}"), `{"list":["a","b"],"replicas":3,"v":{"k":["A",true],"l":8},"version":"v1.33.0","x":1}`, `{"size":1}`},
		"overrides and builtins of workers":   {hosts("[big]", "{op: add, path: /spec/template/spec/v, valueFrom: {template: '{{ .a }} {{ .builtin.cluster.name }} {{ .builtin.machineDeployment.class }}'}}"), `{"list":["a","b"],"replicas":3,"version":"v1.33.0","x":1}`, `{"size":1,"v":"B c big"}`},
		"any class":                           {hosts("['*']", setSize), `{"list":["a","b"],"replicas":3,"version":"v1.33.0","x":1}`, `{"size":2}`},
		"a class by its beginning":            {hosts("['b*']", setSize), `{"list":["a","b"],"replicas":3,"version":"v1.33.0","x":1}`, `{"size":2}`},
		"a class by its end":                  {hosts("['*ig']", setSize), `{"list":["a","b"],"replicas":3,"version":"v1.33.0","x":1}`, `{"size":2}`},
		"another class":                       {hosts("[small, 'ig*', '*bi']", setSize), `{"list":["a","b"],"replicas":3,"version":"v1.33.0","x":1}`, `{"size":1}`},
		"another role":                        {definition("{apiVersion: infra/v1, kind: HostTemplate, matchResources: {controlPlane: true, machinePoolClass: {names: ['*']}}}", setSize), `{"list":["a","b"],"replicas":3,"version":"v1.33.0","x":1}`, `{"size":1}`},
		"another version":                     {definition("{apiVersion: infra/v2, kind: HostTemplate, matchResources: {machineDeploymentClass: {names: ['*']}}}", setSize), `{"list":["a","b"],"replicas":3,"version":"v1.33.0","x":1}`, `{"size":1}`},
		"what the topology sets":              {plane("{op: replace, path: /spec/template/spec/replicas, value: 9}, {op: add, path: /spec/template/spec/version, value: v2}, {op: add, path: /spec/template/spec/rollout, value: {after: x}}"), `{"list":["a","b"],"replicas":3,"version":"v1.33.0","x":1}`, `{"size":1}`},
		"the order of patches": {"[{name: p, definitions: [{selector: " + controlPlanes + ", jsonPatches: [{op: add, path: /spec/template/spec/v, value: {}}]}, {selector: " + controlPlanes + ", jsonPatches: [{op: add, path: /spec/template/spec/v/w, value: 1}]}]}, {name: q, definitions: [{selector: " + controlPlanes + ", jsonPatches: [{op: replace, path: /spec/template/spec/v/w, value: 2}]}]}]",
			`{"list":["a","b"],"replicas":3,"v":{"w":2},"version":"v1.33.0","x":1}`, `{"size":1}`},
		"the whole spec, within bounds": {plane("{op: replace, path: /spec/template, value: {metadata: {labels: {own: '1', cluster.x-k8s.io/cluster-name: c}, annotations: {cluster.x-k8s.io/cloned-from-name: cp}}, spec: {x: 5}}}"), `{"replicas":3,"version":"v1.33.0","x":5}`, `{"size":1}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, errs := finish(t, begin(t, tc.patches))
			if diff := cmp.Diff([]string{"", ""}, errs); diff != "" {
				t.Fatal(diff)
			}
			hosts, _, err := unstructured.NestedMap(out[1].Item.Desired.Object, "spec", "template", "spec")
			if err != nil {
				t.Fatal(err)
			}
			for want, got := range map[string]any{tc.plane: out[0].Item.Desired.Object["spec"], tc.hosts: hosts} {
				text, err := json.Marshal(got)
				if err != nil {
					t.Fatal(err)
				}
				if string(text) != want {
					t.Errorf("got %s, want %s", text, want)
				}
			}
		})
	}
}

func TestEnabledIf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"{{ eq .a \"A\" }}": true, "true": true, " True": true, "{{ if .none }}true{{ end }}": false, "{{ .none }}": false,
		"'true'": false, "1": false, "{{ .map.k.l }}": true, "{{ semverCompare \">= 1.33\" .builtin.controlPlane.version }}": true,
	} {
		out, errs := finish(t, begin(t, fmt.Sprintf("[{name: p, enabledIf: %q, definitions: [{selector: %s, jsonPatches: [{op: add, path: /spec/template/spec/on, value: 1}]}]}]", text, controlPlanes)))
		_, on, _ := unstructured.NestedFieldNoCopy(out[0].Item.Desired.Object, "spec", "on")
		if on != want || errs[0] != "" {
			t.Errorf("%s: got %t, want %t; %s", text, on, want, errs[0])
		}
	}
}

func TestMetadataIsPatchedWhereItIsDesired(t *testing.T) {
	t.Parallel()
	out, errs := finish(t, begin(t, `[{name: p, definitions: [
	  {selector: `+controlPlanes+`, jsonPatches: [{op: add, path: /spec/template/metadata/labels/new, value: '1'}, {op: replace, path: /spec/template/metadata/labels/cluster.x-k8s.io~1cluster-name, value: other}, {op: remove, path: /spec/template/metadata/annotations}]},
	  {selector: {apiVersion: infra/v1, kind: HostTemplate, matchResources: {machineDeploymentClass: {names: [big]}}}, jsonPatches: [{op: add, path: /spec/template/metadata, value: {labels: {machine: '1'}}}, {op: add, path: /metadata/labels/new, value: '1'}, {op: remove, path: /metadata/labels/cluster.x-k8s.io~1cluster-name}]}]}]`))
	if diff := cmp.Diff([]string{"", ""}, errs); diff != "" {
		t.Fatal(diff)
	}
	plane, hosts := out[0].Item.Desired, out[1].Item.Desired
	for name, tc := range map[string]struct{ got, want any }{
		"labels of the control plane":      {plane.GetLabels(), map[string]string{"own": "1", "new": "1", "cluster.x-k8s.io/cluster-name": "c"}},
		"annotations of the control plane": {plane.GetAnnotations(), map[string]string{"cluster.x-k8s.io/cloned-from-name": "cp"}},
		"labels of the template":           {hosts.GetLabels(), map[string]string{"new": "1", "cluster.x-k8s.io/cluster-name": "c"}},
		"its name":                         {hosts.GetName(), "c-md-0-abcde"},
		"its machines":                     {hosts.Object["spec"], map[string]any{"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"machine": "1"}}, "spec": map[string]any{"size": int64(1)}}}},
	} {
		if diff := cmp.Diff(tc.want, tc.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestTemplateBombsEnd renders bombs that only go off with the variables of a Cluster.
func TestTemplateBombsEnd(t *testing.T) {
	t.Parallel()
	for name, bomb := range builder.TemplateBombs() {
		define, body := "", bomb
		if end := strings.Index(bomb, "{{ end }}") + len("{{ end }}"); strings.Contains(bomb, "define") {
			define, body = bomb[:end], bomb[end:]
		}
		bomb = strconv.Quote(define + "{{ if .a }}" + body + "{{ end }}")
		for at, patch := range map[string]string{
			"enabledIf":          "enabledIf: " + bomb + ", definitions: [{selector: " + controlPlanes + ", jsonPatches: [{op: add, path: /spec/template/spec/a, value: 1}]}]",
			"valueFrom.template": "definitions: [{selector: " + controlPlanes + ", jsonPatches: [{op: add, path: /spec/template/spec/a, valueFrom: {template: " + bomb + "}}]}]",
		} {
			if strings.Contains(bomb, "genPrivateKey") || strings.Contains(bomb, "randAlphaNum") {
				continue // refused before, as functions that do not exist
			}
			_, errs := finish(t, begin(t, "[{name: p, "+patch+"}]"))
			if !strings.Contains(errs[0], at) || !strings.Contains(errs[0], "costs too much") && !strings.Contains(errs[0], "makes more than") && !strings.Contains(errs[0], "depth") {
				t.Errorf("%s in %s: got %q", name, at, errs[0])
			}
		}
	}
}

func TestYAMLOfTemplatesHasALimit(t *testing.T) {
	t.Parallel()
	bomb := strconv.Quote("{a: &a " + strings.Repeat("x", 20<<10) + ", b: [" + strings.Repeat("*a,", 1000) + "]}")
	_, errs := finish(t, begin(t, "[{name: p, definitions: [{selector: "+controlPlanes+", jsonPatches: [{op: add, path: /spec/template/spec/a, valueFrom: {template: "+bomb+"}}]}]}]"))
	if !strings.Contains(errs[0], "aliases that make too much") {
		t.Errorf("got %.300q, want that aliases make too much", errs)
	}
}

// TestPatchesOfAnObjectShareABudget: many templates that each cost little enough.
func TestPatchesOfAnObjectShareABudget(t *testing.T) {
	t.Parallel()
	op := "{op: add, path: /spec/template/spec/a, valueFrom: {template: '{{ range 100000 }}{{ end }}{{ .a }}'}}"
	_, errs := finish(t, begin(t, "[{name: p, definitions: [{selector: "+controlPlanes+", jsonPatches: ["+op+strings.Repeat(", "+op, 20)+"]}]}]"))
	if !strings.Contains(errs[0], "costs too much") || errs[1] != "" {
		t.Errorf("got %q, want that the control plane costs too much, and nothing of the workers", errs)
	}
}

func TestFailedPatchIsReportedAndOthersContinue(t *testing.T) {
	t.Parallel()
	for op, want := range map[string]string{
		"{op: replace, path: /spec/template/spec/no, value: 1}":                                     `PlaneTemplate ns/cp: patch "p", definitions[0]: replace /spec/template/spec/no: it does not apply to the template: there is no /spec/template/spec/no: use add, or have the template set it`,
		"{op: add, path: /spec/template/spec/a/b, value: 1}":                                        `: add what is above it first`,
		"{op: remove, path: /spec/template/spec/list/2}":                                            `there is no /spec/template/spec/list/2: have the template set it`,
		"{op: add, path: /spec/template/spec/list/4, value: 1}":                                     `there is no /spec/template/spec/list/4: add what is above it first`,
		"{op: replace, path: /spec/template/spec/list/-, value: 1}":                                 `there is no /spec/template/spec/list/-: use add`,
		"{op: add, path: /spec/template/spec/x/y, value: 1}":                                        `there is no /spec/template/spec/x/y: add`,
		"{op: add, path: /spec/template/spec/no/where/at/all, value: 1}":                            `there is no /spec/template/spec/no: add`,
		"{op: remove, path: /spec/template/spec/no}":                                                `: have the template set it, or have enabledIf ask for it`,
		"{op: add, path: /spec/template/spec/a, valueFrom: {variable: none}}":                       `add /spec/template/spec/a: valueFrom.variable: none has no value: set it in spec.topology of the Cluster, give it a default, or have enabledIf ask for it`,
		"{op: add, path: /spec/template/spec/a, valueFrom: {variable: 'list[2].n'}}":                `list[2] has no value`,
		"{op: add, path: /spec/template/spec/a, valueFrom: {variable: a.b}}":                        `a is no object`,
		"{op: add, path: /spec/template/spec/a, valueFrom: {variable: 'map[0]'}}":                   `map is no list`,
		"{op: add, path: /spec/template/spec/a, valueFrom: {template: 'x{{ .none }}'}}":             `it prints a variable that has no value`,
		"{op: add, path: /spec/template/spec/a, valueFrom: {template: '{{ fail .a }}'}}":            `valueFrom.template: template: template:1:3: executing "template" at <fail .a>: error calling fail: A`,
		"{op: add, path: /spec/template/spec/a, valueFrom: {template: '[{{ .a }}'}}":                `it makes no YAML`,
		"{op: add, path: /spec/template/spec/a, valueFrom: {template: '{{ repeat 99999999 .a }}'}}": `it costs too much`,
	} {
		hosts := "{selector: {apiVersion: infra/v1, kind: HostTemplate, matchResources: {machineDeploymentClass: {names: [big]}}}, jsonPatches: [{op: replace, path: /spec/template/spec/size, value: 2}]}"
		out, errs := finish(t, begin(t, "[{name: p, definitions: [{selector: "+controlPlanes+", jsonPatches: ["+op+"]}]}, {name: q, definitions: ["+hosts+"]}]"))
		if !strings.Contains(errs[0], want) {
			t.Errorf("%s: got %s, want %s", op, errs[0], want)
		}
		if size, _, _ := unstructured.NestedInt64(out[1].Item.Desired.Object, "spec", "template", "spec", "size"); errs[1] != "" || size != 2 {
			t.Errorf("%s: the workers have %d, %s", op, size, errs[1])
		}
	}
}

func TestCompileNamesAllThatIsWrong(t *testing.T) {
	t.Parallel()
	_, err := patches.Compile(class(t, `[{name: p, enabledIf: '{{ if }}'}, {name: q, definitions: [{selector: `+controlPlanes+`, jsonPatches: [
		{op: add, path: /spec/a, valueFrom: {variable: unknown.a}}, {op: add, path: /spec/b, valueFrom: {variable: 'a['}}, {op: add, path: /spec/c, valueFrom: {template: '{{ now }}'}},
		{op: add, path: spec/h, value: 1}, {op: add, path: /spec/d}, {op: add, path: /spec/e, valueFrom: {}}, {op: add, path: /spec/f, valueFrom: {variable: theirs}}, {op: remove, path: /spec/g}]}]}]`))
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		`patch "p": enabledIf: `,
		`patch "q", definitions[0] for PlaneTemplate: add /spec/a: valueFrom.variable: the class defines no variable "unknown": define it in spec.variables, or correct the name`,
		`add /spec/b: "a[": an index is not written as in a.b[0].c`,
		`add /spec/c: valueFrom.template: is no Go template: template: template:1: function "now" not defined: it gives another result each time`,
		`add spec/h: a path begins with /`,
		`add /spec/d: it has to have either value or valueFrom`,
		`add /spec/e: valueFrom has to have either variable or template`,
		`add /spec/f: valueFrom.variable: the class defines no variable "theirs"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != 8 {
		t.Errorf("%d faults, want 8: %v", n, err)
	}
}

func TestUnmatchedDefinitionIsReported(t *testing.T) {
	t.Parallel()
	const op = "jsonPatches: [{op: remove, path: /spec/template/spec/x}]"
	r := begin(t, `[{name: p, definitions: [{selector: {apiVersion: cp/v2, kind: PlaneTemplate, matchResources: {controlPlane: true}}, `+op+`}, {selector: `+controlPlanes+`, `+op+`},
		{selector: {apiVersion: x/v1, kind: X, matchResources: {machineDeploymentClass: {names: [unused]}}}, `+op+`}]}]`)
	want := []string{`patch "p", definitions[0]: no template that it selects by role is a PlaneTemplate of cp/v2: correct kind or apiVersion`}
	if diff := cmp.Diff(want, slices.Clone(r.Unmatched())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
