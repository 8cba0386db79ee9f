// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/extension/catalog/testdata/v1alpha2"
)

func TestTheCommittedDocumentIsCurrent(t *testing.T) {
	t.Parallel()
	want, err := Render(catalog.Default(), Version)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(JSON()), "\n")); diff != "" {
		t.Errorf("openapi.json is stale, run go generate ./extension/openapi (-catalog +committed):\n%s", diff)
	}
}

func TestEveryHookIsOneOperation(t *testing.T) {
	t.Parallel()
	doc := &spec3.OpenAPI{}
	if err := json.Unmarshal(JSON(), doc); err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, d := range catalog.Default().Hooks() {
		path := "/hooks.runtime.cluster.x-k8s.io/v1alpha1/" + strings.ToLower(d.Hook)
		parameters := []string{"query timeout"}
		if d.Hook != "Discovery" {
			path += "/{name}"
			parameters = []string{"path name", "query timeout"}
		}
		p := doc.Paths.Paths[path]
		if p == nil || p.Post == nil || p.Get != nil {
			t.Errorf("%s: no POST at %s", d, path)
			continue
		}
		var got []string
		for _, param := range p.Post.Parameters {
			got = append(got, param.In+" "+param.Name)
		}
		if diff := cmp.Diff(parameters, got); diff != "" {
			t.Errorf("%s: parameters (-want +got)\n%s", d, diff)
		}
		if ids[p.Post.OperationId] || p.Post.OperationId == "" {
			t.Errorf("%s: operation %q", d, p.Post.OperationId)
		}
		ids[p.Post.OperationId] = true
		if p.Post.Summary != d.Summary || p.Post.Description != d.Description || !slices.Equal(p.Post.Tags, d.Tags) || p.Post.Deprecated {
			t.Errorf("%s: the operation says something else than the catalog", d)
		}
		body, answer := p.Post.RequestBody.Content, p.Post.Responses.StatusCodeResponses[200].Content
		wantContent(t, body, d.Request)
		wantContent(t, answer, d.Response)
	}
	if len(doc.Paths.Paths) != len(ids) {
		t.Errorf("%d paths, %d hooks", len(doc.Paths.Paths), len(ids))
	}
}

func wantContent(t *testing.T, content map[string]*spec3.MediaType, gvk schema.GroupVersionKind) {
	t.Helper()
	if got := slices.Collect(maps.Keys(content)); !slices.Equal(got, []string{"application/json"}) {
		t.Fatalf("%s: content %q", gvk.Kind, got)
	}
	if got, want := content["application/json"].Schema.Ref.String(), "#/components/schemas/hooks.v1alpha1."+gvk.Kind; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestMessagesHaveOneKind(t *testing.T) {
	t.Parallel()
	doc, err := Document(catalog.Default(), "v0")
	if err != nil {
		t.Fatal(err)
	}
	s := doc.Components.Schemas["hooks.v1alpha1.BeforeClusterCreateResponse"]
	for field, want := range map[string]string{"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "kind": "BeforeClusterCreateResponse"} {
		if diff := cmp.Diff([]any{want}, s.Properties[field].Enum); diff != "" {
			t.Errorf("%s (-want +got)\n%s", field, diff)
		}
	}
}

func TestSchemasHaveEnumsAndBounds(t *testing.T) {
	t.Parallel()
	doc, err := Document(catalog.Default(), "v0")
	if err != nil {
		t.Fatal(err)
	}
	of := doc.Components.Schemas
	for name, want := range map[string][]any{
		"hooks.v1alpha1.ResponseStatus": {"Failure", "Success"},
		"hooks.v1alpha1.PatchType":      {"JSONMergePatch", "JSONPatch"},
		"hooks.v1alpha1.FailurePolicy":  {"Fail", "Ignore"},
	} {
		if diff := cmp.Diff(want, of[name].Enum); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
	timeout := of["hooks.v1alpha1.ExtensionHandler"].Properties["timeoutSeconds"]
	if timeout.Minimum == nil || *timeout.Minimum != 0 || timeout.Maximum == nil || *timeout.Maximum != 30 {
		t.Errorf("timeoutSeconds: %+v", timeout.SchemaProps)
	}
	required := map[string][]string{
		"hooks.v1alpha1.BeforeClusterUpgradeRequest":    {"cluster", "fromKubernetesVersion", "toKubernetesVersion"},
		"hooks.v1alpha1.BeforeClusterUpgradeResponse":   {"retryAfterSeconds", "status"},
		"hooks.v1alpha1.CanUpdateMachineRequestObjects": {"infrastructureMachine", "machine"}, // left out if empty, yet required
		"hooks.v1alpha1.DiscoveryRequest":               nil,
	}
	for name, want := range required {
		if diff := cmp.Diff(want, of[name].Required); diff != "" {
			t.Errorf("required of %s (-want +got)\n%s", name, diff)
		}
	}
}

func TestDocumentMarksDeprecatedHook(t *testing.T) {
	t.Parallel()
	d := catalog.Descriptor{Description: "It does.", Deprecated: &catalog.Deprecation{Since: "v1.4.0", Date: "2026-11-20", Use: "g/v2/H"}}
	if got, want := description(d), "Deprecated since v1.4.0 (2026-11-20): use g/v2/H. It does."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	d.GroupVersionHook = catalog.GroupVersionHook{Group: hooksv1.GroupVersion().Group, Version: "v1alpha1", Hook: "Discovery"}
	d.RequestType, d.ResponseType = reflect.TypeFor[hooksv1.DiscoveryRequest](), reflect.TypeFor[hooksv1.DiscoveryResponse]()
	s, err := known()
	if err != nil {
		t.Fatal(err)
	}
	b := &builder{known: s, components: map[string]*spec.Schema{}, operations: map[string]catalog.GroupVersionHook{}}
	if op, err := b.operation(d); err != nil || !op.Deprecated {
		t.Errorf("the operation is not deprecated: %v", err)
	}
	if _, err := b.operation(d); err == nil || !strings.Contains(err.Error(), "hooksRuntimeClusterXK8sIoV1alpha1Discovery") {
		t.Errorf("two operations of one name: %v", err)
	}
}

func TestAHookWithoutSchemaIsAnError(t *testing.T) {
	t.Parallel()
	c, err := catalog.New(catalog.V1Alpha1(), v1alpha2.Version())
	if err != nil {
		t.Fatal(err)
	}
	_, err = Document(c, "v0")
	const want = "describe hook hooks.runtime.cluster.x-k8s.io/v1alpha2/BeforeClusterUpgrade: there is no schema of github.com/capstan-dev/capstan/extension/catalog/testdata/v1alpha2.BeforeClusterUpgradeRequest: only the types in api/hooks have one"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// TestSchemasHaveTheFieldsOfTheTypes fails when types change without a run of the
// generator. make verify finds changed comments and bounds too.
func TestSchemasHaveTheFieldsOfTheTypes(t *testing.T) {
	t.Parallel()
	s, err := known()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[reflect.Type]bool{}
	for _, d := range catalog.Default().Hooks() {
		compareFields(t, s, d.RequestType, seen)
		compareFields(t, s, d.ResponseType, seen)
	}
	if len(seen) < 100 {
		t.Errorf("only %d types were compared", len(seen))
	}
}

func compareFields(t *testing.T, s *schemas, typ reflect.Type, seen map[reflect.Type]bool) {
	t.Helper()
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map {
		typ = typ.Elem()
	}
	_, marshals := reflect.PointerTo(typ).MethodByName("MarshalJSON")
	if typ.Kind() != reflect.Struct || marshals || seen[typ] || typ.Name() == "FieldsV1" {
		return
	}
	seen[typ] = true
	name, ok := s.Types[typ.PkgPath()+"."+typ.Name()]
	if !ok {
		t.Errorf("%s has no schema: run go generate ./extension/openapi", typ)
		return
	}
	var want []string
	var fields func(reflect.Type)
	fields = func(typ reflect.Type) {
		for f := range typ.Fields() {
			tag, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
			if strings.Contains(opts, "inline") {
				fields(f.Type)
			} else if tag != "-" {
				want = append(want, tag)
				p := s.Schemas[name].Properties[tag]
				if len(p.Type) == 1 && p.Type[0] != jsonType(f.Type) {
					t.Errorf("field %s of %s is %s in its schema, run go generate ./extension/openapi", tag, typ, p.Type[0])
				}
				if len(references(&p)) > 0 { // otherwise the schema leaves open what the field holds
					compareFields(t, s, f.Type, seen)
				}
			}
		}
	}
	fields(typ)
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(s.Schemas[name].Properties))); diff != "" {
		t.Errorf("fields of %s (-type +schema), run go generate ./extension/openapi:\n%s", typ, diff)
	}
}

func jsonType(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "string"
		}
		return "array"
	case reflect.Map, reflect.Struct:
		return "object"
	default:
		return "integer"
	}
}
