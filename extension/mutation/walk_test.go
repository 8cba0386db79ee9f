// SPDX-License-Identifier: Apache-2.0

package mutation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/extension/mutation"
)

const (
	kcpTemplate     = `{"apiVersion":"controlplane.cluster.x-k8s.io/v1beta2","kind":"KubeadmControlPlaneTemplate","metadata":{"name":"cp"},"spec":{"template":{"spec":{}}}}`
	machineTemplate = `{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"MadeUpMachineTemplate","metadata":{"name":"m"},"spec":{"template":{"spec":{"size":"small"}}}}`
)

func variable(name, value string) hooksv1.Variable {
	return hooksv1.Variable{Name: name, Value: apiextensionsv1.JSON{Raw: []byte(value)}}
}

func holder(kind, name, field string) hooksv1.HolderReference {
	version := "cluster.x-k8s.io/v1beta2"
	if kind == "KubeadmControlPlane" {
		version = "controlplane.cluster.x-k8s.io/v1beta2"
	}
	return hooksv1.HolderReference{APIVersion: version, Kind: kind, Namespace: "default", Name: name, FieldPath: field}
}

func requestItem(uid types.UID, h hooksv1.HolderReference, object string, variables ...hooksv1.Variable) hooksv1.GeneratePatchesRequestItem {
	return hooksv1.GeneratePatchesRequestItem{UID: uid, HolderReference: h, Object: runtime.RawExtension{Raw: []byte(object)}, Variables: variables}
}

// request has the templates of a control plane, a MachineDeployment and a
// MachinePool.
func request() *hooksv1.GeneratePatchesRequest {
	return &hooksv1.GeneratePatchesRequest{
		Variables: []hooksv1.Variable{variable("builtin", `{"cluster":{"name":"demo","topology":{"version":"v1.34.0"}}}`), variable("size", `"large"`)},
		Items: []hooksv1.GeneratePatchesRequestItem{
			requestItem("1", holder("Cluster", "demo", "spec.infrastructureRef"), strings.ReplaceAll(machineTemplate, "Machine", "Cluster")),
			requestItem("2", holder("Cluster", "demo", "spec.controlPlaneRef"), kcpTemplate),
			requestItem("3", holder("KubeadmControlPlane", "demo-cp", "spec.machineTemplate.spec.infrastructureRef"), machineTemplate),
			requestItem("4", holder("MachineDeployment", "demo-md", "spec.template.spec.infrastructureRef"), machineTemplate,
				variable("builtin", `{"machineDeployment":{"class":"gpu-worker","topologyName":"md-0"}}`), variable("size", `"huge"`)),
			requestItem("5", holder("MachinePool", "demo-mp", "spec.template.spec.infrastructureRef"), machineTemplate,
				variable("builtin", `{"machinePool":{"class":"pool","topologyName":"mp-0"}}`)),
		},
	}
}

func resize(_ context.Context, t *mutation.Template) error {
	size, err := mutation.VariableOr(t.Variables, "size", "medium")
	if err != nil {
		return err
	}
	return unstructured.SetNestedField(t.Object.Object, size, "spec", "template", "spec", "size")
}

func TestGeneratePatchesPatchesWhatChangedInOrder(t *testing.T) {
	t.Parallel()
	resp := &hooksv1.GeneratePatchesResponse{}
	req := request()
	req.Items[4].Object.Raw = []byte(strings.ReplaceAll(machineTemplate, "small", "large")) // already as desired
	if err := mutation.GeneratePatches(t.Context(), req, resp, mutation.When(resize, mutation.Kind("MadeUpMachineTemplate"))); err != nil {
		t.Fatal(err)
	}
	item := func(uid types.UID, size string) hooksv1.GeneratePatchesResponseItem {
		return hooksv1.GeneratePatchesResponseItem{UID: uid, PatchType: hooksv1.JSONPatchType, Patch: []byte(`[{"op":"add","path":"/spec/template/spec/size","value":"` + size + `"}]`)}
	}
	if d := cmp.Diff([]hooksv1.GeneratePatchesResponseItem{item("3", "large"), item("4", "huge")}, resp.Items); d != "" {
		t.Errorf("patches (-want +got):\n%s", d)
	}
	if d := cmp.Diff(string(request().Items[2].Object.Raw), string(req.Items[2].Object.Raw)); d != "" {
		t.Errorf("the request changed (-want +got):\n%s", d)
	}
}

func TestPatchesReachTheirObjects(t *testing.T) {
	t.Parallel()
	for _, opts := range [][]mutation.Option{nil, {mutation.MergePatches()}} {
		resp := &hooksv1.GeneratePatchesResponse{}
		if err := mutation.GeneratePatches(t.Context(), request(), resp, mutation.When(resize, mutation.MachineDeployment()), opts...); err != nil {
			t.Fatal(err)
		}
		if len(resp.Items) != 1 {
			t.Fatalf("got %d patches, want 1", len(resp.Items))
		}
		got := apply(t, machineTemplate, resp.Items[0].PatchType, resp.Items[0].Patch)
		if want := strings.ReplaceAll(machineTemplate, "small", "huge"); diff(t, want, got) != "" {
			t.Errorf("%s: got %s, want %s", resp.Items[0].PatchType, got, want)
		}
	}
}

func TestSelectorsChooseByKindAndHolder(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		where []mutation.Selector
		want  []types.UID
	}{
		"everything without selectors":          {nil, []types.UID{"1", "2", "3", "4", "5"}},
		"a kind":                                {[]mutation.Selector{mutation.Kind("MadeUpMachineTemplate")}, []types.UID{"3", "4", "5"}},
		"a kind of a group":                     {[]mutation.Selector{mutation.Kind("KubeadmControlPlaneTemplate.controlplane.cluster.x-k8s.io")}, []types.UID{"2"}},
		"not a kind of another group":           {[]mutation.Selector{mutation.Kind("KubeadmControlPlaneTemplate.example.com")}, nil},
		"the infrastructure of the cluster":     {[]mutation.Selector{mutation.InfrastructureCluster()}, []types.UID{"1"}},
		"the control plane and its machines":    {[]mutation.Selector{mutation.ControlPlane()}, []types.UID{"2", "3"}},
		"all MachineDeployments":                {[]mutation.Selector{mutation.MachineDeployment()}, []types.UID{"4"}},
		"MachineDeployments of a class":         {[]mutation.Selector{mutation.MachineDeployment("other", "gpu-worker")}, []types.UID{"4"}},
		"a class by its beginning":              {[]mutation.Selector{mutation.MachineDeployment("gpu-*")}, []types.UID{"4"}},
		"a class by its end":                    {[]mutation.Selector{mutation.MachineDeployment("*-worker")}, []types.UID{"4"}},
		"no MachineDeployment of another class": {[]mutation.Selector{mutation.MachineDeployment("pool")}, nil},
		"a MachineDeployment by name":           {[]mutation.Selector{mutation.MachineDeploymentNamed("md-0")}, []types.UID{"4"}},
		"MachinePools of a class":               {[]mutation.Selector{mutation.MachinePool("pool")}, []types.UID{"5"}},
		"a MachinePool by name":                 {[]mutation.Selector{mutation.MachinePoolNamed("mp-1", "mp-0")}, []types.UID{"5"}},
		"what all selectors agree on":           {[]mutation.Selector{mutation.ControlPlane(), mutation.Kind("MadeUpMachineTemplate")}, []types.UID{"3"}},
		"nothing when selectors do not agree":   {[]mutation.Selector{mutation.MachinePool(), mutation.MachineDeployment()}, nil},
		"a selector of the author":              {[]mutation.Selector{func(t *mutation.Template) bool { return t.UID == "2" }}, []types.UID{"2"}},
		"a selector that reads the variables":   {[]mutation.Selector{func(t *mutation.Template) bool { return t.Builtins.Cluster.Name == "demo" }}, []types.UID{"1", "2", "3", "4", "5"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []types.UID
			visit := mutation.When(func(_ context.Context, t *mutation.Template) error {
				got = append(got, t.UID)
				return nil
			}, tc.where...)
			resp := &hooksv1.GeneratePatchesResponse{}
			if err := mutation.GeneratePatches(t.Context(), request(), resp, visit); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("visited (-want +got):\n%s", d)
			}
			if resp.Items != nil {
				t.Errorf("patches of what did not change: %v", resp.Items)
			}
		})
	}
}

func TestHoldersOfAnotherGroupAreNotOurs(t *testing.T) {
	t.Parallel()
	h := mutation.Holder{HolderReference: holder("Cluster", "demo", "spec.infrastructureRef")}
	h.APIVersion = "example.com/v1"
	if h.InfrastructureCluster() {
		t.Error("a Cluster of example.com is taken for ours")
	}
}

func TestErrorsNameTheItem(t *testing.T) {
	t.Parallel()
	md := holder("MachineDeployment", "demo-md", "spec.template.spec.infrastructureRef")
	fine := func(context.Context, *mutation.Template) error { return nil }
	const where = "item 0 (MadeUpMachineTemplate of MachineDeployment default/demo-md, spec.template.spec.infrastructureRef): "
	const unread = "item 0 (template of MachineDeployment default/demo-md, spec.template.spec.infrastructureRef): "
	tests := map[string]struct {
		items []hooksv1.GeneratePatchesRequestItem
		visit mutation.Visit
		opts  []mutation.Option
		want  string
	}{
		"without object":      {[]hooksv1.GeneratePatchesRequestItem{{UID: "1", HolderReference: md}}, fine, nil, unread + "has no object"},
		"broken JSON":         {[]hooksv1.GeneratePatchesRequestItem{requestItem("1", md, `{"kind":`)}, fine, nil, unread + "decode object: unexpected end of JSON input"},
		"not an object":       {[]hooksv1.GeneratePatchesRequestItem{requestItem("1", md, `[1]`)}, fine, nil, unread + "object is not a JSON object"},
		"without a kind":      {[]hooksv1.GeneratePatchesRequestItem{requestItem("1", md, `{"apiVersion":"v1"}`)}, fine, nil, unread + "object has no kind or no apiVersion"},
		"without uid":         {[]hooksv1.GeneratePatchesRequestItem{requestItem("", md, machineTemplate)}, fine, nil, where + "has no uid"},
		"a variable twice":    {[]hooksv1.GeneratePatchesRequestItem{requestItem("1", md, machineTemplate, variable("a", "1"), variable("a", "2"))}, fine, nil, where + "variable a is there twice"},
		"builtin of no shape": {[]hooksv1.GeneratePatchesRequestItem{requestItem("1", md, machineTemplate, variable("builtin", `"x"`))}, fine, nil, where + "variable builtin is a string, not *v1alpha1.Builtins: json: cannot unmarshal string into Go value of type v1alpha1.Builtins"},
		"an error of visit": {[]hooksv1.GeneratePatchesRequestItem{requestItem("1", md, machineTemplate)}, func(context.Context, *mutation.Template) error {
			return errors.New("out of quota")
		}, nil, where + "out of quota"},
		"a change of a label": {[]hooksv1.GeneratePatchesRequestItem{requestItem("1", md, machineTemplate)}, func(_ context.Context, t *mutation.Template) error {
			t.Object.SetLabels(map[string]string{"a/b": "c"})
			return resize(t0, t)
		}, nil, where + "changes /metadata/labels: a patch may change only spec"},
		"a change of the kind": {[]hooksv1.GeneratePatchesRequestItem{requestItem("1", md, machineTemplate)}, func(_ context.Context, t *mutation.Template) error {
			t.Object.SetKind("Other")
			return nil
		}, []mutation.Option{mutation.MergePatches()}, where + "changes /kind: a patch may change only spec"},
		"an object taken away": {[]hooksv1.GeneratePatchesRequestItem{requestItem("1", md, machineTemplate)}, func(_ context.Context, t *mutation.Template) error {
			t.Object = nil
			return nil
		}, nil, where + "visit took the object away"},
		"what JSON cannot hold": {[]hooksv1.GeneratePatchesRequestItem{requestItem("1", md, machineTemplate)}, func(_ context.Context, t *mutation.Template) error {
			t.Object.Object["spec"] = make(chan int)
			return nil
		}, nil, where + "encode changed object: json: unsupported type: chan int"},
		"null in a merge patch": {[]hooksv1.GeneratePatchesRequestItem{requestItem("1", md, machineTemplate)}, func(_ context.Context, t *mutation.Template) error {
			t.Object.Object["spec"] = map[string]any{"list": []any{map[string]any{"a": nil}}}
			return nil
		}, []mutation.Option{mutation.MergePatches()}, where + "sets /spec/list/0/a to null, which a JSON merge patch cannot"},
		"unknown holder": {[]hooksv1.GeneratePatchesRequestItem{{UID: "1"}}, fine, nil, "item 0 (template of unknown holder): has no object"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp := &hooksv1.GeneratePatchesResponse{}
			err := mutation.GeneratePatches(t.Context(), &hooksv1.GeneratePatchesRequest{Items: tc.items}, resp, tc.visit, tc.opts...)
			if got := fmt.Sprint(err); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if resp.Items != nil {
				t.Errorf("an error came with patches: %v", resp.Items)
			}
		})
	}
}

var t0 = context.Background() // resize does not use it

func TestAllErrorsAreReturnedUnlessTheFirstWillDo(t *testing.T) {
	t.Parallel()
	req := request()
	req.Items[2].UID = "2"
	req.Items[4].Object.Raw = []byte("{")
	visited := 0
	visit := func(_ context.Context, t *mutation.Template) error {
		visited++
		if t.Holder.MachineDeployment() {
			return errors.New("out of quota")
		}
		return resize(t0, t)
	}
	resp := &hooksv1.GeneratePatchesResponse{}
	err := mutation.GeneratePatches(t.Context(), req, resp, visit)
	want := []string{"item 2 (MadeUpMachineTemplate", "has the uid 2 of item 1", "item 3 (", "out of quota", "item 4 (template of MachinePool default/demo-mp", "unexpected end of JSON input"}
	for _, w := range want {
		if !strings.Contains(fmt.Sprint(err), w) {
			t.Errorf("%v lacks %q", err, w)
		}
	}
	if visited != 3 || resp.Items != nil {
		t.Errorf("visited %d, patches %v; want 3 and none", visited, resp.Items)
	}
	visited = 0
	err = mutation.GeneratePatches(t.Context(), req, resp, visit, mutation.FailFast())
	if visited != 2 || err == nil || strings.Contains(err.Error(), "quota") {
		t.Errorf("fail fast: visited %d, %v", visited, err)
	}
}

func TestPanicsBecomeErrorsOfTheirItem(t *testing.T) {
	t.Parallel()
	visited := 0
	visit := func(_ context.Context, t *mutation.Template) error {
		visited++
		if t.Holder.ControlPlane() {
			return errors.New(t.Builtins.MachinePool.Class) // nil
		}
		return nil
	}
	err := mutation.GeneratePatches(t.Context(), request(), &hooksv1.GeneratePatchesResponse{}, visit)
	if got := fmt.Sprint(err); !strings.HasPrefix(got, "item 1 (KubeadmControlPlaneTemplate of Cluster default/demo, spec.controlPlaneRef): panic at walk_test.go:") || !strings.HasSuffix(got, "nil pointer dereference") {
		t.Error(got)
	}
	if visited != 5 {
		t.Errorf("visited %d, want 5", visited)
	}
}

func TestWalksEndWithTheirContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	visited := 0
	err := mutation.GeneratePatches(ctx, request(), &hooksv1.GeneratePatchesResponse{}, func(context.Context, *mutation.Template) error {
		visited++
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) || visited != 1 {
		t.Errorf("got %v after %d visits", err, visited)
	}
}

func TestValidateTopologySeesEveryTemplate(t *testing.T) {
	t.Parallel()
	req := &hooksv1.ValidateTopologyRequest{Variables: request().Variables}
	for _, i := range request().Items {
		req.Items = append(req.Items, &hooksv1.ValidateTopologyRequestItem{HolderReference: i.HolderReference, Object: i.Object, Variables: i.Variables})
	}
	tooLarge := func(_ context.Context, t *mutation.Template) error {
		size, _, err := mutation.Variable[string](t.Variables, "size")
		if size == "huge" {
			return errors.New("huge is too large")
		}
		return err
	}
	err := mutation.ValidateTopology(t.Context(), req, tooLarge)
	if got, want := fmt.Sprint(err), "item 3 (MadeUpMachineTemplate of MachineDeployment default/demo-md, spec.template.spec.infrastructureRef): huge is too large"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	req.Items[3] = nil
	if got, want := fmt.Sprint(mutation.ValidateTopology(t.Context(), req, tooLarge)), "item 3 (template of unknown holder): has no object"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	req.Items = req.Items[:3]
	if err := mutation.ValidateTopology(t.Context(), req, tooLarge); err != nil {
		t.Error(err)
	}
}

func TestObjectsOfGoTypesAreTemplatesToo(t *testing.T) {
	t.Parallel()
	kcp := &controlplanev1.KubeadmControlPlaneTemplate{}
	kcp.SetGroupVersionKind(controlplanev1.GroupVersion().WithKind("KubeadmControlPlaneTemplate"))
	req := &hooksv1.GeneratePatchesRequest{Items: []hooksv1.GeneratePatchesRequestItem{{UID: "1", Object: runtime.RawExtension{Object: kcp}}}}
	resp := &hooksv1.GeneratePatchesResponse{}
	err := mutation.GeneratePatches(t.Context(), req, resp, func(_ context.Context, t *mutation.Template) error {
		return unstructured.SetNestedField(t.Object.Object, "x", "spec", "template", "spec", "rollout", "strategy", "type")
	})
	if err != nil || len(resp.Items) != 1 {
		t.Errorf("got %v, %v; want a patch", resp.Items, err)
	}
}

// apply does what the plane does with a patch.
func apply(t testing.TB, object string, patchType hooksv1.PatchType, patch []byte) []byte {
	t.Helper()
	if patchType == hooksv1.JSONMergePatchType {
		out, err := jsonpatch.MergePatch([]byte(object), patch)
		if err != nil {
			t.Fatalf("apply %s to %s: %v", patch, object, err)
		}
		return out
	}
	p, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatalf("decode %s: %v", patch, err)
	}
	out, err := p.Apply([]byte(object))
	if err != nil {
		t.Fatalf("apply %s to %s: %v", patch, object, err)
	}
	return out
}

// diff compares JSON; numbers by how they are written.
func diff(t testing.TB, want string, got []byte) string {
	t.Helper()
	decode := func(data string) (v any) {
		d := json.NewDecoder(strings.NewReader(data))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Fatalf("decode %s: %v", data, err)
		}
		return v
	}
	return cmp.Diff(decode(want), decode(string(got)))
}
