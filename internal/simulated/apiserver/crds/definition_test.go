// SPDX-License-Identifier: Apache-2.0

package crds_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/crds"
)

// parse reads an object from YAML, with whole numbers as decoded objects have them.
func parse(t *testing.T, text string) *unstructured.Unstructured {
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

// widgets is a definition with two versions, as a user sends it.
const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget, shortNames: [wd]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    additionalPrinterColumns: [{name: Size, type: string, jsonPath: .spec.size}, {name: Replicas, type: integer, jsonPath: .spec.replicas}]
    selectableFields: [{jsonPath: .spec.size}]
    schema: {openAPIV3Schema: &schema {type: object, required: [spec], properties: {
      spec: {type: object, required: [size],
        x-kubernetes-validations: [{rule: "self.replicas <= self.most", message: at most most}, {rule: "self.size == oldSelf.size", message: size is fixed}],
        properties: {
          size: {type: string, enum: [small, large]},
          replicas: {type: integer, default: 1},
          most: {type: integer, default: 3},
          note: {type: string, nullable: true},
          any: {type: object, x-kubernetes-preserve-unknown-fields: true},
          template: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}},
      status: {type: object, properties: {replicas: {type: integer, minimum: 0}, phase: {type: string}}}}}}
  - name: v1alpha1
    served: true
    storage: false
    schema: {openAPIV3Schema: {<<: *schema, description: older}}
`

// accepted is the text of a definition with the status of one that is served.
func accepted(t *testing.T, text string) []byte {
	t.Helper()
	u := parse(t, text)
	names := u.Object["spec"].(map[string]any)["names"].(map[string]any)
	kind := names["kind"].(string)
	names["singular"], names["listKind"] = strings.ToLower(kind), kind+"List"
	u.Object["status"] = map[string]any{"acceptedNames": names, "conditions": []any{map[string]any{"type": "Established", "status": "True"}}}
	raw, err := json.Marshal(u.Object)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// read reads a definition that is served.
func read(t *testing.T, text string) *crds.Definition {
	t.Helper()
	d, _, err := crds.Read(accepted(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// version is one of the versions of widgets.
func version(t *testing.T, name string) *crds.Version {
	t.Helper()
	d := read(t, widgets)
	i := slices.IndexFunc(d.Versions, func(v *crds.Version) bool { return v.Name == name })
	if i < 0 {
		t.Fatalf("no version %s", name)
	}
	return d.Versions[i]
}

func TestReadSharesEqualDefinitions(t *testing.T) {
	t.Parallel()
	raw := accepted(t, widgets)
	first, state, err := crds.Read(raw)
	if err != nil || !state.Established || state.Terminating || first.Group != "example.com" || first.Names.Plural != "widgets" || !first.Namespaced {
		t.Fatalf("%+v, %+v, error %v", first, state, err)
	}
	other := parse(t, string(raw))
	other.SetUID("another cluster's")
	_ = unstructured.SetNestedSlice(other.Object, []any{map[string]any{"type": "Terminating", "status": "True"}}, "status", "conditions")
	same, err := json.Marshal(other.Object)
	if err != nil {
		t.Fatal(err)
	}
	second, state, err := crds.Read(same)
	if err != nil || second != first || state.Established || !state.Terminating {
		t.Errorf("the same spec in another cluster: shared %v, %+v, error %v", second == first, state, err)
	}
	for _, path := range [][]string{{"status", "acceptedNames", "kind"}, {"spec", "scope"}} {
		different := parse(t, string(raw))
		_ = unstructured.SetNestedField(different.Object, "Gadget", path...)
		raw, err := json.Marshal(different.Object)
		if err != nil {
			t.Fatal(err)
		}
		if third, _, err := crds.Read(raw); err != nil || third == first {
			t.Errorf("another %v: shared %v, error %v", path, third == first, err)
		}
	}
}

func TestReadRefusesWhatIsNoDefinition(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{``, `x`, `[]`, `{}`, `{"spec":5}`, `{"spec":{"versions":5}}`, `{"spec":{},"status":{"conditions":{}}}`} {
		if d, _, err := crds.Read([]byte(raw)); err == nil {
			t.Errorf("%s: %+v", raw, d)
		}
	}
}

func TestVersionsAreInOrderOfStability(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("metadata: {name: xs.a.b}\nkind: X\nspec: {group: a.b, scope: Cluster, names: {plural: xs, kind: X}, versions: [")
	for _, name := range []string{"foo10", "v1", "v12alpha1", "v10", "v3beta1", "v11beta2", "v2", "v11alpha2", "foo1", "v10beta3"} {
		fmt.Fprintf(&text, "{name: %s, served: true, storage: false}, ", name)
	}
	text.WriteString("]}")
	d := read(t, text.String())
	var got []string
	for _, v := range d.Versions {
		got = append(got, v.Name)
	}
	// The order is the example of the documentation of Kubernetes.
	want := []string{"v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"}
	if diff := cmp.Diff(want, got); diff != "" || d.Namespaced {
		t.Errorf("namespaced %v, versions (-want +got):\n%s", d.Namespaced, diff)
	}
}

func TestVersionIsNamedInItsGroup(t *testing.T) {
	t.Parallel()
	v := version(t, "v1")
	if v.GVK() != (schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}) || v.Resource() != (schema.GroupResource{Group: "example.com", Resource: "widgets"}) {
		t.Errorf("%v, %v", v.GVK(), v.Resource())
	}
	alpha := version(t, "v1alpha1")
	if !v.Served || !v.Storage || !v.Status || v.Scale == nil || v.Scale.SpecReplicasPath != ".spec.replicas" || alpha.Storage || alpha.Status || alpha.Scale != nil {
		t.Errorf("%+v, %+v", v, alpha)
	}
}

// The texts are the default ones of k8s.io/apiextensions-apiserver.
func TestDeprecatedVersionsWarn(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ versions, want string }{
		"not deprecated":             {"{name: v1, served: true}", ""},
		"alone":                      {"{name: v1, served: true, deprecated: true}", "a.b/v1 X is deprecated"},
		"a newer one":                {"{name: v1, served: true, deprecated: true}, {name: v2, served: true}", "a.b/v1 X is deprecated; use a.b/v2 X"},
		"the newest of two":          {"{name: v1, served: true, deprecated: true}, {name: v2, served: true}, {name: v3, served: true}", "a.b/v1 X is deprecated; use a.b/v3 X"},
		"only older ones":            {"{name: v1, served: true, deprecated: true}, {name: v1beta1, served: true}", "a.b/v1 X is deprecated"},
		"a newer one is not served":  {"{name: v1, served: true, deprecated: true}, {name: v2, served: false}", "a.b/v1 X is deprecated"},
		"a newer one is deprecated":  {"{name: v1, served: true, deprecated: true}, {name: v2, served: true, deprecated: true}", "a.b/v1 X is deprecated"},
		"a text of its author":       {"{name: v1, served: true, deprecated: true, deprecationWarning: stop}, {name: v2, served: true}", "stop"},
		"a text that does not apply": {"{name: v1, served: true, deprecationWarning: stop}", ""},
	} {
		d := read(t, "metadata: {name: xs.a.b}\nkind: X\nspec: {group: a.b, scope: Cluster, names: {plural: xs, kind: X}, versions: ["+tc.versions+"]}")
		i := slices.IndexFunc(d.Versions, func(v *crds.Version) bool { return v.Name == "v1" })
		if got := d.Versions[i].Warning; got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
