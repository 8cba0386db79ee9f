// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	theirclusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	theirhooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/core/reconcilers/topology/cluster/patches/inline"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/topology/patches"
)

// What random patches are put together from. Some of it is wrong on purpose.
var (
	selectors = []string{
		`{"apiVersion": "cp/v1", "kind": "PlaneTemplate", "matchResources": {"controlPlane": true}}`,
		`{"apiVersion": "cp/v2", "kind": "PlaneTemplate", "matchResources": {"controlPlane": true}}`,
		`{"apiVersion": "infra/v1", "kind": "HostTemplate", "matchResources": {"controlPlane": true}}`,
		`{"apiVersion": "infra/v1", "kind": "HostTemplate", "matchResources": {"machineDeploymentClass": {"names": ["big"]}}}`,
		`{"apiVersion": "infra/v1", "kind": "HostTemplate", "matchResources": {"machineDeploymentClass": {"names": ["*g"]}}}`,
		`{"apiVersion": "infra/v1", "kind": "HostTemplate", "matchResources": {"controlPlane": true, "machineDeploymentClass": {"names": ["b*", "other"]}}}`,
		`{"apiVersion": "infra/v1", "kind": "HostTemplate", "matchResources": {"machineDeploymentClass": {"names": ["other", "*"]}}}`,
		`{"apiVersion": "infra/v1", "kind": "HostTemplate", "matchResources": {"machineDeploymentClass": {"names": ["small"]}}}`,
	}
	enabled = []string{
		``, ``, ``, `true`, `false`, `{{ eq .a "A" }}`, `{{ ne .a "A" }}`, `{{ if .list }}true{{ end }}`, ` true `, `"true"`, `yes`, `{{ .none }}`,
		`{{ semverCompare ">=1.33" .builtin.cluster.topology.version }}`, `{{ .builtin.machineDeployment.class | eq "big" }}`, `{{ and .map.k.l (gt (len .list) 1) }}`,
	}
	targets = []string{
		`"path": "/spec/template/spec/x"`, `"path": "/spec/template/spec/new"`, `"path": "/spec/template/spec/deep/er"`, `"path": "/spec/template/spec/list/-"`,
		`"path": "/spec/template/spec/list/0"`, `"path": "/spec/template/spec/a~1b"`, `"path": "/spec/template/metadata/labels"`, `"path": "/spec/template/spec/size"`,
	}
	patchValues = []string{
		`"value": 7`, `"value": "text"`, `"value": {"a": [1, {"b": null}]}`, `"value": [true, 1.5, "x"]`, `"value": {"l": "1"}`,
		`"valueFrom": {"variable": "a"}`, `"valueFrom": {"variable": "list"}`, `"valueFrom": {"variable": "list[1].n"}`, `"valueFrom": {"variable": "map.k"}`,
		`"valueFrom": {"variable": "builtin.cluster.name"}`, `"valueFrom": {"variable": "builtin.controlPlane.replicas"}`, `"valueFrom": {"variable": "map.none"}`,
		`"valueFrom": {"variable": "list[7]"}`, `"valueFrom": {"variable": "builtin"}`,
		`"valueFrom": {"template": "{{ .a }}-{{ .builtin.cluster.name }}"}`, `"valueFrom": {"template": "{{ .map | toJson }}"}`, `"valueFrom": {"template": "a: {{ .a }}\nlist:\n{{- range .list }}\n- {{ .n }}\n{{- end }}"}`,
		`"valueFrom": {"template": "{{ index .list 1 }}"}`, `"valueFrom": {"template": "{{ .none.deep }}"}`, `"valueFrom": {"template": "{{ upper .a | quote }}"}`, `"valueFrom": {"template": "0123"}`,
		`"valueFrom": {"template": "{{ .list | len }}"}`, `"valueFrom": {"template": "[1, 2"}`, `"valueFrom": {"template": "{{ default \"d\" .builtin.cluster.namespace }}"}`, `"valueFrom": {"template": "1e3"}`, `"valueFrom": {"template": "~"}`,
	}
)

func pick(r *rand.Rand, of []string) string { return of[r.IntN(len(of))] }

// randomPatch is a patch of one or two definitions.
func randomPatch(r *rand.Rand) string {
	operation := func() string {
		switch r.IntN(4) {
		case 0:
			return fmt.Sprintf(`{"op": "remove", %s}`, pick(r, targets))
		case 1:
			return fmt.Sprintf(`{"op": "replace", %s, %s}`, pick(r, targets), pick(r, patchValues))
		}
		return fmt.Sprintf(`{"op": "add", %s, %s}`, pick(r, targets), pick(r, patchValues))
	}
	definitions := ""
	for n := range 1 + r.IntN(2) {
		if n > 0 {
			definitions += ", "
		}
		operations := operation()
		for range r.IntN(3) {
			operations += ", " + operation()
		}
		definitions += fmt.Sprintf(`{"selector": %s, "jsonPatches": [%s]}`, pick(r, selectors), operations)
	}
	condition, _ := json.Marshal(pick(r, enabled))
	return fmt.Sprintf(`{"name": "p", "enabledIf": %s, "definitions": [%s]}`, condition, definitions)
}

// into converts our types to theirs and back, through their JSON.
func into[T any](t *testing.T, from any) *T {
	t.Helper()
	text, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	out := new(T)
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// patched is a Cluster of a control plane, its hosts and a group of workers.
func patched(t *testing.T) patches.Input {
	t.Helper()
	object := func(text string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return u
	}
	item := func(role patches.Role, text, holder string, b hooksv1.Builtins) patches.Item {
		template := object(text)
		return patches.Item{Role: role, Template: template, Desired: template.DeepCopy(), Contract: "v1beta2", Builtins: b, Holder: hooksv1.HolderReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: holder, Namespace: "ns", Name: "c"}}
	}
	const host = `{"apiVersion": "infra/v1", "kind": "HostTemplate", "metadata": {"name": "h", "namespace": "ns"}, "spec": {"template": {"spec": {"size": 1, "list": ["a", "b"], "a/b": 1}}}}`
	plane := patches.ControlPlaneBuiltins(patches.Group{Name: "c-cp", Version: "v1.33.0", Replicas: new(int32(3))})
	workers := item(patches.DeploymentInfrastructure, host, "MachineDeployment", patches.MachineDeploymentBuiltins(patches.Group{Name: "c-md", Version: "v1.32.0", TopologyName: "md", Class: "big"}))
	workers.Group, workers.Class = "md", "big"
	value := func(name, text string) clusterv1.ClusterVariable {
		return clusterv1.ClusterVariable{Name: name, Value: apiextensionsv1.JSON{Raw: []byte(text)}}
	}
	workers.Overrides = []clusterv1.ClusterVariable{value("a", `"B"`)}
	return patches.Input{
		Builtins:  hooksv1.Builtins{Cluster: &hooksv1.ClusterBuiltins{Name: "c", Namespace: "ns", Topology: &hooksv1.ClusterTopologyBuiltins{Version: "v1.33.0"}}},
		Variables: []clusterv1.ClusterVariable{value("a", `"A"`), value("list", `[{"n":1},{"n":2}]`), value("map", `{"k":{"l":true}}`)},
		Items: []patches.Item{
			item(patches.ControlPlane, `{"apiVersion": "cp/v1", "kind": "PlaneTemplate", "metadata": {"name": "cp", "namespace": "ns"}, "spec": {"template": {"metadata": {"labels": {"own": "1"}}, "spec": {"x": 1, "list": ["a", "b"]}}}}`, "Cluster", plane),
			item(patches.ControlPlaneMachines, host, "KubeadmControlPlane", plane),
			workers,
		},
	}
}

// outcome are the objects as patches leave them; "" if any failed.
func outcome(t *testing.T, r *patches.Run) string {
	t.Helper()
	results, err := r.Finish()
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, result := range results {
		if result.Err != nil {
			return ""
		}
		out, err := json.MarshalIndent(result.Item.Desired, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		text += string(out) + "\n"
	}
	return text
}

// TestInlinePatchesDoWhatThePeersDo has the peer compute the JSON patches of random inline
// patches, from the same templates and variables that an extension would receive, and
// compares the results with ours. Where the peer refuses, ours must not patch either.
func TestInlinePatchesDoWhatThePeersDo(t *testing.T) {
	t.Parallel()
	status := []clusterv1.ClusterClassStatusVariable{}
	for _, name := range []string{"a", "list", "map", "none"} {
		status = append(status, clusterv1.ClusterClassStatusVariable{Name: name, Definitions: []clusterv1.ClusterClassStatusVariableDefinition{{From: clusterv1.VariableDefinitionFromInline}}})
	}
	begin := func(text string) (*patches.Run, error) {
		class := &clusterv1.ClusterClass{}
		class.Status.Variables = status
		if err := json.Unmarshal([]byte("["+text+"]"), &class.Spec.Patches); err != nil {
			t.Fatal(err)
		}
		c, err := patches.Compile(class)
		if err != nil {
			return nil, err
		}
		return c.Begin(patched(t))
	}
	refused, same := 0, 0
	for n := range 2000 {
		text := randomPatch(rand.New(rand.NewPCG(1, uint64(n))))
		asking, err := begin(`{"name": "ext", "external": {"generatePatchesExtension": "x.y"}}`)
		if err != nil {
			t.Fatal(err)
		}
		q, err := asking.Next()
		if err != nil || q == nil {
			t.Fatal(q, err)
		}
		request := into[theirhooksv1.GeneratePatchesRequest](t, q.Request)
		for i := range request.Items { // which the peer fills before it calls
			item := &unstructured.Unstructured{}
			if err := item.UnmarshalJSON(request.Items[i].Object.Raw); err != nil {
				t.Fatal(err)
			}
			request.Items[i].Object.Object = item
		}
		before := ""
		theirs := into[theirclusterv1.ClusterClassPatch](t, json.RawMessage(text))
		answer, theirErr := inline.NewGenerator(theirs).Generate(t.Context(), &theirclusterv1.Cluster{}, request)
		// Where a template reads a missing value, the peer inserts "<no value>". Ours is
		// an error.
		if theirErr == nil && !slices.ContainsFunc(answer.Items, func(i theirhooksv1.GeneratePatchesResponseItem) bool {
			return strings.Contains(string(i.Patch), "no value")
		}) {
			if err := asking.Answer(into[hooksv1.GeneratePatchesResponse](t, answer)); err == nil {
				before = outcome(t, asking)
			}
		}
		got := ""
		if ours, err := begin(text); err == nil {
			if q, err := ours.Next(); err == nil && q == nil {
				got = outcome(t, ours)
			}
		}
		if d := cmp.Diff(before, got); d != "" {
			t.Errorf("patch %d: %s\nthe peer: %v (-peer +ours):\n%s", n, text, theirErr, d)
		}
		if got == "" {
			refused++
		} else {
			same++
		}
	}
	t.Logf("%d patches, %d refused by both", same+refused, refused)
	if same < 300 {
		t.Errorf("only %d patches apply", same)
	}
}
