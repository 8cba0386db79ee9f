// SPDX-License-Identifier: Apache-2.0

package patching_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/crds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/patching"
)

const (
	asJSON      = types.JSONPatchType
	asMerge     = types.MergePatchType
	asStrategic = types.StrategicMergePatchType
)

// parse reads an object from YAML, with whole numbers as decoded objects have them.
func parse(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u
}

// widgetKind is a kind that a definition defines, with a list that is merged by a key.
func widgetKind(t testing.TB) *kinds.Kind {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(`
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: string}
              ports: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [port], items: {type: object, required: [port], properties: {port: {type: integer}, name: {type: string}}}}
          status: {type: object, properties: {phase: {type: string}}}
status:
  acceptedNames: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  conditions: [{type: Established, status: "True"}]
`))
	if err != nil {
		t.Fatal(err)
	}
	d, state, err := crds.Read(raw)
	if err != nil {
		t.Fatal(err)
	}
	served := kinds.Everywhere().With([]kinds.Defined{{Definition: d, State: state}})
	return served.ByKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"})
}

const (
	configMap  = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, finalizers: [x/a, x/b]}, data: {a: '1', b/c~d: '2'}}"
	deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, finalizers: [x/a], generation: 9007199254740993}
spec:
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}
  template: {spec: {containers: [{name: a, image: one, ports: [{containerPort: 1}]}, {name: b, image: two}]}}
`
)

// The expected results are those of RFC 6902, of RFC 7386, and of the documentation of
// strategic merge patches.
func TestPatchChangesObjects(t *testing.T) {
	t.Parallel()
	configMaps, deployments := kinds.ByType(&corev1.ConfigMap{}), kinds.ByType(&appsv1.Deployment{})
	for name, tc := range map[string]struct {
		kind   *kinds.Kind
		object string
		form   types.PatchType
		patch  string
		path   string // of what is compared
		want   string
	}{
		"add a key":               {configMaps, configMap, asJSON, `[{"op":"add","path":"/data/x","value":"9"}]`, "data", `{a: '1', b/c~d: '2', x: '9'}`},
		"replace an escaped key":  {configMaps, configMap, asJSON, `[{"op":"replace","path":"/data/b~1c~0d","value":"9"}]`, "data", `{a: '1', b/c~d: '9'}`},
		"remove a key":            {configMaps, configMap, asJSON, `[{"op":"remove","path":"/data/a"}]`, "data", `{b/c~d: '2'}`},
		"move a key":              {configMaps, configMap, asJSON, `[{"op":"move","from":"/data/a","path":"/data/z"}]`, "data", `{b/c~d: '2', z: '1'}`},
		"copy a key":              {configMaps, configMap, asJSON, `[{"op":"copy","from":"/data/a","path":"/data/z"}]`, "data", `{a: '1', b/c~d: '2', z: '1'}`},
		"test, then remove":       {configMaps, configMap, asJSON, `[{"op":"test","path":"/data/a","value":"1"},{"op":"remove","path":"/data/a"}]`, "data", `{b/c~d: '2'}`},
		"insert into a list":      {configMaps, configMap, asJSON, `[{"op":"add","path":"/metadata/finalizers/1","value":"x/c"}]`, "metadata.finalizers", `[x/a, x/c, x/b]`},
		"append to a list":        {configMaps, configMap, asJSON, `[{"op":"add","path":"/metadata/finalizers/-","value":"x/c"}]`, "metadata.finalizers", `[x/a, x/b, x/c]`},
		"no operation":            {configMaps, configMap, asJSON, `[]`, "data", `{a: '1', b/c~d: '2'}`},
		"merge keys":              {configMaps, configMap, asMerge, `{"data":{"x":"9","a":null}}`, "data", `{b/c~d: '2', x: '9'}`},
		"merge a null":            {configMaps, configMap, asMerge, `{"data":null}`, "data", ``},
		"merge a null in a new":   {configMaps, configMap, asMerge, `{"metadata":{"labels":{"a":"b","c":null}}}`, "metadata.labels", `{a: b}`},
		"merge replaces lists":    {configMaps, configMap, asMerge, `{"metadata":{"finalizers":["x/c"]}}`, "metadata.finalizers", `[x/c]`},
		"merge nothing":           {configMaps, configMap, asMerge, `{}`, "data", `{a: '1', b/c~d: '2'}`},
		"merge into a definition": {widgetKind(t), "{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}, spec: {size: s, ports: [{port: 1}]}}", asMerge, `{"spec":{"ports":[{"port":2}]}}`, "spec", "{size: s, ports: [{port: 2}]}"},
		"by the key of a list":    {deployments, deployment, asStrategic, `{"spec":{"template":{"spec":{"containers":[{"name":"b","image":"three"}]}}}}`, "spec.template.spec.containers", "[{name: a, image: one, ports: [{containerPort: 1}]}, {name: b, image: three}]"},
		"a new key of a list":     {deployments, deployment, asStrategic, `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"three"}],"$setElementOrder/containers":[{"name":"c"},{"name":"a"},{"name":"b"}]}}}}`, "spec.template.spec.containers", "[{name: c, image: three}, {name: a, image: one, ports: [{containerPort: 1}]}, {name: b, image: two}]"},
		"delete by a directive":   {deployments, deployment, asStrategic, `{"spec":{"template":{"spec":{"containers":[{"$patch":"delete","name":"a"}]}}}}`, "spec.template.spec.containers", "[{name: b, image: two}]"},
		"replace by a directive":  {deployments, deployment, asStrategic, `{"spec":{"template":{"spec":{"$patch":"replace","containers":[{"name":"z","image":"z"}]}}}}`, "spec.template.spec", "{containers: [{name: z, image: z}]}"},
		"keep keys":               {deployments, deployment, asStrategic, `{"spec":{"strategy":{"$retainKeys":["type"],"type":"Recreate"}}}`, "spec.strategy", "{type: Recreate}"},
		"merge simple values":     {deployments, deployment, asStrategic, `{"metadata":{"finalizers":["x/b"]}}`, "metadata.finalizers", "[x/b, x/a]"},
		"delete a simple value":   {deployments, deployment, asStrategic, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["x/a"],"finalizers":["x/b"]}}`, "metadata.finalizers", "[x/b]"},
		"keep large numbers":      {deployments, deployment, asStrategic, `{"metadata":{"labels":{"a":"b"}}}`, "metadata.generation", "9007199254740993"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			latest := parse(t, tc.object)
			before := latest.DeepCopy()
			next, err := patching.Patch(tc.kind, latest, tc.form, []byte(tc.patch))
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := unstructured.NestedFieldNoCopy(next.Object, strings.Split(tc.path, ".")...)
			if err != nil {
				t.Fatal(err)
			}
			var want any
			if tc.want != "" {
				want = parse(t, "{kind: X, value: "+tc.want+"}").Object["value"]
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.path, diff)
			}
			if diff := cmp.Diff(before, latest); diff != "" {
				t.Errorf("the latest object was changed (-want +got):\n%s", diff)
			}
		})
	}
}

// code is that of an error's Status; 0 if it has none.
func code(err error) int32 {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return status.Status().Code
	}
	return 0
}

// The codes are those of k8s.io/apiserver, in which only an unknown directive is an internal
// error.
func TestPatchRefusesBadPatches(t *testing.T) {
	t.Parallel()
	configMaps, deployments := kinds.ByType(&corev1.ConfigMap{}), kinds.ByType(&appsv1.Deployment{})
	many := "[" + strings.TrimSuffix(strings.Repeat(`{"op":"test","path":"/data/a","value":"1"},`, 10_001), ",") + "]"
	for name, tc := range map[string]struct {
		kind   *kinds.Kind
		object string
		form   types.PatchType
		patch  string
		want   int32
	}{
		"no JSON":                      {configMaps, configMap, asJSON, `x`, http.StatusBadRequest},
		"no list":                      {configMaps, configMap, asJSON, `{"op":"remove"}`, http.StatusBadRequest},
		"a failed test":                {configMaps, configMap, asJSON, `[{"op":"test","path":"/data/a","value":"2"}]`, http.StatusUnprocessableEntity},
		"a path that is missing":       {configMaps, configMap, asJSON, `[{"op":"remove","path":"/data/z"}]`, http.StatusUnprocessableEntity},
		"a parent that is missing":     {configMaps, configMap, asJSON, `[{"op":"add","path":"/a/b/c","value":1}]`, http.StatusUnprocessableEntity},
		"an index out of the list":     {configMaps, configMap, asJSON, `[{"op":"add","path":"/metadata/finalizers/999999999","value":"x"}]`, http.StatusUnprocessableEntity},
		"an index that is no number":   {configMaps, configMap, asJSON, `[{"op":"add","path":"/metadata/finalizers/x","value":"x"}]`, http.StatusUnprocessableEntity},
		"an unknown operation":         {configMaps, configMap, asJSON, `[{"op":"increase","path":"/data/a"}]`, http.StatusUnprocessableEntity},
		"an operation without a path":  {configMaps, configMap, asJSON, `[{"op":"remove"}]`, http.StatusUnprocessableEntity},
		"an empty operation":           {configMaps, configMap, asJSON, `[null]`, http.StatusUnprocessableEntity},
		"too many operations":          {configMaps, configMap, asJSON, many, http.StatusRequestEntityTooLarge},
		"a result of no kind":          {configMaps, configMap, asJSON, `[{"op":"remove","path":"/kind"}]`, http.StatusBadRequest},
		"a merge of no JSON":           {configMaps, configMap, asMerge, `{`, http.StatusBadRequest},
		"a merge of nothing":           {configMaps, configMap, asMerge, ``, http.StatusBadRequest},
		"a merge of null":              {configMaps, configMap, asMerge, `null`, http.StatusBadRequest},
		"a merge of a list":            {configMaps, configMap, asMerge, `[]`, http.StatusBadRequest},
		"a merge of a text":            {configMaps, configMap, asMerge, `"a"`, http.StatusBadRequest},
		"a strategic one of no JSON":   {deployments, deployment, asStrategic, `{`, http.StatusBadRequest},
		"an unknown directive":         {deployments, deployment, asStrategic, `{"spec":{"$patch":"increase"}}`, http.StatusBadRequest},
		"a key that is not kept":       {deployments, deployment, asStrategic, `{"spec":{"strategy":{"$retainKeys":["rollingUpdate"],"type":"Recreate"}}}`, http.StatusBadRequest},
		"a list instead of keys":       {deployments, deployment, asStrategic, `{"spec":{"strategy":{"$retainKeys":"type"}}}`, http.StatusBadRequest},
		"a strategic one of a defined": {widgetKind(t), "{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}}", asStrategic, `{}`, http.StatusUnsupportedMediaType},
		"an unknown form":              {configMaps, configMap, "text/plain", `{}`, http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if next, err := patching.Patch(tc.kind, parse(t, tc.object), tc.form, []byte(tc.patch)); code(err) != tc.want {
				t.Errorf("got %v, error %v, want code %d", next, err, tc.want)
			}
		})
	}
}

func TestPatchLimitsCopies(t *testing.T) {
	t.Parallel()
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"a": strings.Repeat("x", 64<<10)},
	}}
	for copies, want := range map[int]int32{3: 0, 12: http.StatusUnprocessableEntity} {
		patch := strings.TrimSuffix(strings.Repeat(`{"op":"copy","from":"/data","path":"/data/b"},`, copies), ",")
		if _, err := patching.Patch(kinds.ByType(&corev1.ConfigMap{}), u, asJSON, []byte("["+patch+"]")); code(err) != want {
			t.Errorf("%d copies: got error %v, want code %d", copies, err, want)
		}
	}
}

// FuzzPatch: no patch panics, and each error has a status. What succeeds is an object.
func FuzzPatch(f *testing.F) {
	for _, patch := range []string{
		`[{"op":"add","path":"","value":{"kind":"X"}}]`, `[{"op":"add","path":"/-"}]`, `[{"op":"move","from":"","path":"/a"}]`, `[{"op":"test","path":"/data"}]`, `[{"op":"copy","from":"/metadata/finalizers/0","path":"/metadata/finalizers/-1"}]`,
		`[{}]`, `[[]]`, `{"metadata":[]}`, `{"kind":null}`, `{"$patch":"replace"}`, `{"spec":{"template":{"spec":{"containers":[null]}}}}`, `{"spec":{"template":{"spec":{"containers":{"$patch":"delete"}}}}}`,
		`{"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":1}]}}}}`, `{"metadata":{"$deleteFromPrimitiveList/finalizers":[{}]}}`, `{"spec":{"strategy":{"$retainKeys":[null]}}}`, `{"spec":null}`, `{"metadata":{"$setElementOrder/finalizers":["x/a"]}}`,
		`{"spec":{"template":{"spec":{"containers":[{"$patch":"replace"},{"name":"a"}]}}}}`, `{"spec":{"template":{"spec":{"containers":[{"name":"a","ports":[{"$patch":"merge"}]}]}}}}`,
	} {
		f.Add(patch)
	}
	latest, deployments := parse(f, deployment), kinds.ByType(&appsv1.Deployment{})
	f.Fuzz(func(t *testing.T, patch string) {
		for _, form := range []types.PatchType{asJSON, asMerge, asStrategic} {
			next, err := patching.Patch(deployments, latest, form, []byte(patch))
			if err != nil && code(err) == 0 || err == nil && next.GetKind() == "" {
				t.Errorf("%s: %v, error %v", form, next, err)
			}
			if err == nil {
				_ = runtime.DeepCopyJSON(next.Object) // it panics for what no decoder returns
			}
		}
	})
}
