// SPDX-License-Identifier: Apache-2.0

package patches_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/topology/patches"
)

// mixed has an extension between two inline patches, and two that validate.
const mixed = `[
  {name: first, definitions: [{selector: ` + controlPlanes + `, jsonPatches: [{op: add, path: /spec/template/spec/first, value: 1}]}]},
  {name: ext, external: {generatePatchesExtension: gen.ext, validateTopologyExtension: val.ext, settings: {k: v}}},
  {name: last, definitions: [{selector: ` + controlPlanes + `, jsonPatches: [{op: add, path: /spec/template/spec/last, value: 1}]}]},
  {name: check, external: {validateTopologyExtension: val.check, settings: {other: w}}}]`

func ask(t testing.TB, r *patches.Run) *patches.Question {
	t.Helper()
	q, err := r.Next()
	if err != nil || q == nil {
		t.Fatalf("asks %v, %v", q, err)
	}
	return q
}

func text(t testing.TB, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func answer(uid types.UID, kind hooksv1.PatchType, patch string) *hooksv1.GeneratePatchesResponse {
	return &hooksv1.GeneratePatchesResponse{Items: []hooksv1.GeneratePatchesResponseItem{{UID: uid, PatchType: kind, Patch: []byte(patch)}}}
}

// TestAnExtensionIsAskedTheSameAgain checks that answers can be cached by the request.
func TestAnExtensionIsAskedTheSameAgain(t *testing.T) {
	t.Parallel()
	q := ask(t, begin(t, mixed))
	want := `{"kind":"GeneratePatchesRequest","apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","settings":{"k":"v"},` +
		`"variables":[{"name":"builtin","value":{"cluster":{"name":"c","namespace":"ns"}}},{"name":"a","value":"A"},{"name":"list","value":[{"n":1},{"n":2}]},{"name":"map","value":{"k":{"l":true}}},{"name":"theirs","value":"T"}],` +
		`"items":[{"uid":"controlPlane","holderReference":{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","namespace":"ns","name":"c","fieldPath":"spec.controlPlaneRef"},` +
		`"object":{"apiVersion":"cp/v1","kind":"PlaneTemplate","metadata":{"name":"cp","namespace":"ns"},"spec":{"template":{"metadata":{"annotations":{"cluster.x-k8s.io/cloned-from-name":"cp"},"labels":{"cluster.x-k8s.io/cluster-name":"c","own":"1"}},"spec":{"first":1,"list":["a","b"],"replicas":7,"x":1}}}},` +
		`"variables":[{"name":"builtin","value":{"controlPlane":{"version":"v1.33.0","name":"c-cp","replicas":3}}}]},` +
		`{"uid":"machineDeploymentInfrastructure/md-0","holderReference":{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"MachineDeployment","namespace":"ns","name":"c-md-0","fieldPath":"spec.template.spec.infrastructureRef"},` +
		`"object":{"apiVersion":"infra/v1","kind":"HostTemplate","metadata":{"labels":{"cluster.x-k8s.io/cluster-name":"c"},"name":"h","namespace":"ns"},"spec":{"template":{"spec":{"size":1}}}},` +
		`"variables":[{"name":"builtin","value":{"machineDeployment":{"version":"v1.32.0","class":"big","name":"c-md-0","topologyName":"md-0"}}},{"name":"a","value":"B"}]}]}`
	if diff := cmp.Diff(want, text(t, q.Request)); diff != "" || q.Patch != "ext" || q.Extension != "gen.ext" {
		t.Errorf("%s asks %s (-want +got):\n%s", q.Patch, q.Extension, diff)
	}
	if again := text(t, ask(t, begin(t, mixed)).Request); again != want {
		t.Error("another request the second time")
	}
}

func TestAnswersOfExtensions(t *testing.T) {
	t.Parallel()
	const asGiven = `{"first":1,"last":1,"list":["a","b"],"replicas":3,"version":"v1.33.0","x":1}`
	tests := map[string]struct {
		kind    hooksv1.PatchType
		patch   string
		want    string
		wantErr string
	}{
		"a JSON patch":             {hooksv1.JSONPatchType, `[{"op":"test","path":"/spec/template/spec/first","value":1},{"op":"add","path":"/spec/template/spec/ext","value":1}]`, `{"ext":1,"first":1,"last":1,"list":["a","b"],"replicas":3,"version":"v1.33.0","x":1}`, ""},
		"a merge patch":            {hooksv1.JSONMergePatchType, `{"spec":{"template":{"spec":{"list":null,"big":9007199254740993}}}}`, `{"big":9007199254740993,"first":1,"last":1,"replicas":3,"version":"v1.33.0","x":1}`, ""},
		"an empty list":            {hooksv1.JSONPatchType, `[]`, asGiven, ""},
		"an empty object":          {hooksv1.JSONMergePatchType, ` {} `, asGiven, ""},
		"no bytes":                 {"", ``, asGiven, ""},
		"empty fields of Go types": {hooksv1.JSONMergePatchType, `{"metadata":{"creationTimestamp":null},"status":{},"spec":{"template":{"metadata":{"creationTimestamp":null}}}}`, asGiven, ""},
		"what the topology sets":   {hooksv1.JSONMergePatchType, `{"spec":{"template":{"spec":{"replicas":5,"machineTemplate":{"spec":{"deletion":{"nodeDrainTimeoutSeconds":1}}}}}}}`, asGiven, ""},
		"no type":                  {"", `[{}]`, "", `patch "ext": what extension gen.ext answered for item "controlPlane": its type is ""`},
		"another type":             {hooksv1.JSONPatchType, `{"a":1}`, "", `it is no JSON patch`},
		"one that does not apply":  {hooksv1.JSONPatchType, `[{"op":"remove","path":"/spec/no"}]`, "", `it does not apply`},
		"another name":             {hooksv1.JSONMergePatchType, `{"metadata":{"name":"x"},"spec":{"template":{"spec":{"x":2}}}}`, `{"first":1,"last":1,"list":["a","b"],"replicas":3,"version":"v1.33.0","x":2}`, ""},
		"another kind":             {hooksv1.JSONMergePatchType, `{"kind":"X"}`, asGiven, ""},
		"all of spec":              {hooksv1.JSONPatchType, `[{"op":"add","path":"/spec","value":{"template":{"spec":{}}}},{"op":"add","path":"/spec/template/spec/x","value":2}]`, `{"last":1,"replicas":3,"version":"v1.33.0","x":2}`, ""},
		"another field":            {hooksv1.JSONPatchType, `[{"op":"add","path":"/spec/other","value":1},{"op":"add","path":"/status","value":{}}]`, asGiven, ""},
		"no object at all":         {hooksv1.JSONMergePatchType, `"x"`, "", `it leaves no object`},
		"no spec":                  {hooksv1.JSONMergePatchType, `{"spec":null}`, asGiven, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := begin(t, mixed)
			q := ask(t, r)
			if _, err := r.Next(); err == nil || !strings.Contains(err.Error(), `patch "ext" has no answer yet`) {
				t.Fatalf("continues without an answer: %v", err)
			}
			if err := r.Answer(answer(q.Request.Items[0].UID, tc.kind, tc.patch)); err != nil {
				t.Fatal(err)
			}
			out, errs := finish(t, r)
			if tc.want != "" && text(t, out[0].Item.Desired.Object["spec"]) != tc.want || tc.want != "" && errs[0] != "" {
				t.Errorf("got %s, want %s; %s", text(t, out[0].Item.Desired.Object["spec"]), tc.want, errs[0])
			}
			if !strings.Contains(errs[0], tc.wantErr) || tc.wantErr == "" && tc.want == "" && errs[0] == "" {
				t.Errorf("got %q, want %q", errs[0], tc.wantErr)
			}
			if errs[1] != "" {
				t.Errorf("the workers: %s", errs[1])
			}
		})
	}
}

func TestAnAnswerAboutSomethingElseIsAnError(t *testing.T) {
	t.Parallel()
	r := begin(t, mixed)
	if err := r.Answer(&hooksv1.GeneratePatchesResponse{}); err == nil {
		t.Error("an answer without a question is accepted")
	}
	ask(t, r)
	err := r.Answer(answer("another", hooksv1.JSONPatchType, `[{"op":"remove","path":"/spec"}]`))
	if err == nil || !strings.Contains(err.Error(), `patch "ext": extension gen.ext answered for item "another", which it was not asked about`) {
		t.Errorf("got %v", err)
	}
	if _, err := r.Finish(); err == nil {
		t.Error("it can be finished")
	}
}

// TestEachExtensionValidatesWithItsOwnVariables also has one that only
// validates.
func TestEachExtensionValidatesWithItsOwnVariables(t *testing.T) {
	t.Parallel()
	r := begin(t, mixed)
	ask(t, r)
	if err := r.Answer(&hooksv1.GeneratePatchesResponse{}); err != nil {
		t.Fatal(err)
	}
	finish(t, r)
	all, err := r.Validations()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range all {
		names := ""
		for _, each := range v.Request.Variables {
			names += " " + each.Name
		}
		got = append(got, fmt.Sprint(v.Patch, " asks ", v.Extension, " ", v.Request.Settings, len(v.Request.Items), strings.Contains(string(v.Request.Items[0].Object.Raw), `"last":1`), names))
	}
	want := []string{"ext asks val.ext map[k:v] 2 true builtin a list map theirs", "check asks val.check map[other:w] 2 true builtin a list map"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestATemplateThatIsBareCanBePatched(t *testing.T) {
	t.Parallel()
	c, err := patches.Compile(class(t, definition(controlPlanes, "{op: add, path: /spec/template/spec, value: {x: 1}}")))
	if err != nil {
		t.Fatal(err)
	}
	in := input(t)
	in.Items[0].Template = object(t, "{apiVersion: cp/v1, kind: PlaneTemplate, metadata: {name: cp, namespace: ns}, spec: {template: {}}}")
	r, err := c.Begin(in)
	if err != nil {
		t.Fatal(err)
	}
	out, errs := finish(t, r)
	if got := text(t, out[0].Item.Desired.Object["spec"]); errs[0] != "" || got != `{"replicas":3,"version":"v1.33.0","x":1}` {
		t.Errorf("got %s; %s", got, errs[0])
	}
}

// TestATemplateWithoutValuesCanGetMetadata: it is its metadata that changes, and
// nothing above that.
func TestATemplateWithoutValuesCanGetMetadata(t *testing.T) {
	t.Parallel()
	const workers = "{apiVersion: infra/v1, kind: HostTemplate, matchResources: {machineDeploymentClass: {names: [big]}}}"
	c, err := patches.Compile(class(t, definition(workers, "{op: add, path: /spec/template/metadata, value: {labels: {size: large}}}")))
	if err != nil {
		t.Fatal(err)
	}
	in := input(t)
	in.Items[1].Template = object(t, "{apiVersion: infra/v1, kind: HostTemplate, metadata: {name: h, namespace: ns}, spec: {template: {spec: {simulated: {}}}}}")
	r, err := c.Begin(in)
	if err != nil {
		t.Fatal(err)
	}
	out, errs := finish(t, r)
	if got := text(t, out[1].Item.Desired.Object["spec"]); errs[1] != "" || !strings.Contains(got, `"metadata":{"labels":{"size":"large"}}`) {
		t.Errorf("got %s; %s", got, errs[1])
	}
}

// FuzzPatches checks that no patch changes the topology's own fields, or panics.
func FuzzPatches(f *testing.F) {
	f.Add("add", "/spec/template/spec/a", `{"b":1}`, "{{ .a }}", true)
	f.Add("remove", "/spec/template/metadata", ``, "", false)
	f.Add("replace", "/spec/template/spec/list/0", ``, "{{ range .list }}- {{ .n }}\n{{ end }}", true)
	f.Add("add", "/metadata/labels/x", `1`, "", false)
	f.Fuzz(func(t *testing.T, op, path, value, tpl string, asTemplate bool) {
		c := class(t, definition(controlPlanes, ""))
		j := clusterv1.JSONPatch{Op: op, Path: path}
		if asTemplate {
			j.ValueFrom = &clusterv1.JSONPatchValue{Template: tpl}
		} else {
			v := json.RawMessage(value)
			if err := json.Unmarshal([]byte(fmt.Sprintf(`{"op":%q,"path":"x","value":%s}`, "add", v)), &j); err != nil {
				t.Skip()
			}
			j.Op, j.Path = op, path
		}
		c.Spec.Patches[0].Definitions[0].JSONPatches = []clusterv1.JSONPatch{j}
		compiled, err := patches.Compile(c)
		if err != nil {
			t.Skip()
		}
		r, err := compiled.Begin(input(t))
		if err != nil {
			t.Fatal(err)
		}
		out, _ := finish(t, r)
		got := out[0].Item.Desired
		if replicas, _, _ := unstructured.NestedInt64(got.Object, "spec", "replicas"); got.GetName() != "c-cp" || got.GetKind() != "Plane" || replicas != 3 || got.GetLabels()[clusterv1.ClusterNameLabel] != "c" {
			t.Errorf("it has become %v", got.Object)
		}
	})
}

// largest is the largest class that is expected, and a Cluster of it.
func largest(b *testing.B) (*clusterv1.ClusterClass, patches.Input) {
	b.Helper()
	c, in := class(b, `[]`), input(b)
	for n := range 30 {
		p := class(b, fmt.Sprintf(`[{name: p%[1]d, enabledIf: '{{ if .v%[1]d }}true{{ end }}', definitions: [
		  {selector: %[2]s, jsonPatches: [{op: add, path: /spec/template/spec/f%[1]d, valueFrom: {template: 'registry.example.com/{{ .v%[1]d }}:{{ .builtin.controlPlane.version }}'}}, {op: add, path: /spec/template/spec/g%[1]d, valueFrom: {variable: v%[1]d}}]},
		  {selector: {apiVersion: infra/v1, kind: HostTemplate, matchResources: {machineDeploymentClass: {names: [big]}}}, jsonPatches: [{op: add, path: /spec/template/spec/f%[1]d, valueFrom: {template: "labels:\n  a: {{ .v%[1]d }}\nsize: 3"}}]}]}]`, n, controlPlanes))
		c.Spec.Patches = append(c.Spec.Patches, p.Spec.Patches...)
	}
	for n := range 40 {
		name := fmt.Sprintf("v%d", n)
		c.Status.Variables = append(c.Status.Variables, clusterv1.ClusterClassStatusVariable{Name: name, Definitions: []clusterv1.ClusterClassStatusVariableDefinition{{From: clusterv1.VariableDefinitionFromInline}}})
		in.Variables = append(in.Variables, value(name, `"value"`))
	}
	another := in.Items[1] // group of workers
	another.Group = "md-1"
	another.Builtins = patches.MachineDeploymentBuiltins(patches.Group{Name: another.Group})
	in.Items = append(in.Items, another)
	return c, in
}

// BenchmarkCompile measures the cost of a change of the class.
func BenchmarkCompile(b *testing.B) {
	c, _ := largest(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := patches.Compile(c); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPatchesOfACluster is what each Cluster costs: two milliseconds of a
// processor are the bound.
func BenchmarkPatchesOfACluster(b *testing.B) {
	c, in := largest(b)
	compiled, err := patches.Compile(c)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		r, err := compiled.Begin(in)
		if err != nil {
			b.Fatal(err)
		}
		if _, errs := finish(b, r); errs[0]+errs[1] != "" {
			b.Fatal(errs)
		}
	}
}
