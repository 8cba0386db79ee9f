// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/crds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
)

// withWidgets serves a defined kind in two versions in addition.
func withWidgets(t *testing.T) *kinds.Set {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(`
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: string, enum: [small, large], description: how large it is}}}}}}}
  - {name: v1beta1, served: true, storage: false, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
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
	return kinds.Everywhere().With([]kinds.Defined{{Definition: d, State: state}})
}

// decoded parses a document as clients do.
func decoded(t *testing.T, served *kinds.Set, path string) *spec3.OpenAPI {
	t.Helper()
	d, err := Of(served, path)
	if err != nil || d == nil {
		t.Fatalf("%s: document %v, error %v", path, d, err)
	}
	var out spec3.OpenAPI
	if err := json.Unmarshal(d.JSON, &out); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return &out
}

func TestIndexListsWhatIsServed(t *testing.T) {
	t.Parallel()
	served := withWidgets(t)
	raw, err := json.Marshal(Index(served))
	if err != nil {
		t.Fatal(err)
	}
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	if err := json.Unmarshal(raw, &index); err != nil {
		t.Fatal(err)
	}
	for path, there := range map[string]bool{"api/v1": true, "apis/apps/v1": true, "apis/example.com/v1": true, "apis/example.com/v1beta1": true, "apis/example.com/v2": false} {
		if at, ok := index.Paths[path]; ok != there || there && at.ServerRelativeURL != "/openapi/v3/"+path {
			t.Errorf("%s is at %+v, want %v", path, at, there)
		}
	}
	for path := range index.Paths {
		if d, err := Of(served, path); err != nil || d == nil {
			t.Errorf("%s: document %v, error %v", path, d, err)
		}
	}
}

func TestOfHasNoOtherDocuments(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", "api", "api/v2", "apis/v1", "apis/apps", "apis/apps/v1/", "apis/example.com/v1", "../api/v1"} {
		if d, err := Of(kinds.Everywhere(), path); d != nil || err != nil {
			t.Errorf("%q: document %v, error %v", path, d, err)
		}
	}
}

// kubectl finds the schema of a kind by its extension, and follows references.
func TestEveryKindIsDescribed(t *testing.T) {
	t.Parallel()
	reference := regexp.MustCompile(`"#/components/schemas/([^"]*)"`)
	for _, gv := range kinds.Everywhere().GroupVersions() {
		doc := decoded(t, kinds.Everywhere(), root(gv))
		raw, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range reference.FindAllSubmatch(raw, -1) {
			if doc.Components.Schemas[string(m[1])] == nil {
				t.Errorf("%s refers to %s, which it does not describe", gv, m[1])
			}
		}
		for _, k := range kinds.Everywhere().All() {
			if k.GroupVersion() != gv {
				continue
			}
			described := 0
			for _, s := range doc.Components.Schemas {
				list, _ := s.Extensions["x-kubernetes-group-version-kind"].([]any)
				if slices.ContainsFunc(list, func(v any) bool { return v.(map[string]any)["kind"] == k.Kind }) {
					described++
				}
			}
			if described != 1 {
				t.Errorf("%s is described %d times", k.GroupVersionKind, described)
			}
		}
	}
}

func TestPathsHaveTheOperationsOfAKind(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]struct {
		document string
		methods  []string
	}{
		"/api/v1/namespaces/{namespace}/pods":            {"api/v1", []string{"post"}},
		"/api/v1/namespaces/{namespace}/pods/{name}":     {"api/v1", []string{"delete", "get", "patch", "put"}},
		"/api/v1/nodes/{name}":                           {"api/v1", []string{"delete", "get", "patch", "put"}},
		"/api/v1/namespaces/{namespace}/bindings":        {"api/v1", []string{"post"}},
		"/api/v1/namespaces/{namespace}/bindings/{name}": {"api/v1", nil},
		"/apis/apps/v1/deployments":                      {"apis/apps/v1", nil},
	} {
		p := decoded(t, kinds.Everywhere(), want.document).Paths.Paths[path]
		var got []string
		if p != nil {
			for method, op := range map[string]*spec3.Operation{"delete": p.Delete, "get": p.Get, "patch": p.Patch, "post": p.Post, "put": p.Put} {
				if op != nil {
					got = append(got, method)
				}
			}
		}
		if slices.Sort(got); !slices.Equal(got, want.methods) {
			t.Errorf("%s has %v, want %v", path, got, want.methods)
		}
	}
}

// Clients send these parameters only to servers that describe them.
func TestOperationsHaveTheirParameters(t *testing.T) {
	t.Parallel()
	p := decoded(t, kinds.Everywhere(), "apis/apps/v1").Paths.Paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]
	for method, tc := range map[string]struct {
		op   *spec3.Operation
		want []string
	}{
		"get":    {p.Get, nil},
		"put":    {p.Put, []string{"dryRun", "fieldManager", "fieldValidation"}},
		"patch":  {p.Patch, []string{"dryRun", "fieldManager", "fieldValidation", "force"}},
		"delete": {p.Delete, []string{"dryRun", "gracePeriodSeconds", "propagationPolicy"}},
	} {
		var got []string
		for _, parameter := range tc.op.Parameters {
			if parameter.In != "query" {
				t.Errorf("%s of %s is in %s", parameter.Name, method, parameter.In)
			}
			got = append(got, parameter.Name)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s has %v, want %v", method, got, tc.want)
		}
		var gvk schema.GroupVersionKind
		if err := tc.op.Extensions.GetObject("x-kubernetes-group-version-kind", &gvk); err != nil || gvk != (schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}) {
			t.Errorf("%s is of %v, error %v", method, gvk, err)
		}
	}
}

func TestSchemasDescribeGoTypes(t *testing.T) {
	t.Parallel()
	doc := decoded(t, kinds.Everywhere(), "apis/apps/v1")
	property := func(model, name string) spec.Schema {
		s := doc.Components.Schemas[model]
		if s == nil {
			t.Fatalf("no model %s", model)
		}
		return s.Properties[name]
	}
	const deployment, container = "io.k8s.api.apps.v1.DeploymentSpec", "io.k8s.api.core.v1.Container"
	for what, tc := range map[string]struct {
		s            spec.Schema
		kind, format string
	}{
		"a number":                   {property(deployment, "replicas"), "integer", "int32"},
		"a long number":              {property("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "generation"), "integer", "int64"},
		"a boolean":                  {property(deployment, "paused"), "boolean", ""},
		"a text":                     {property(container, "image"), "string", ""},
		"a list":                     {property(container, "command"), "array", ""},
		"a map":                      {property("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector", "matchLabels"), "object", ""},
		"a time":                     {property("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "creationTimestamp"), "string", "date-time"},
		"a quantity in a map":        {*property("io.k8s.api.core.v1.ResourceRequirements", "limits").AdditionalProperties.Schema, "string", ""},
		"a number or a percentage":   {property("io.k8s.api.apps.v1.RollingUpdateDeployment", "maxSurge"), "string", "int-or-string"},
		"an element of a list":       {*property(container, "command").Items.Schema, "string", ""},
		"a value of a map of labels": {*property("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector", "matchLabels").AdditionalProperties.Schema, "string", ""},
	} {
		if !slices.Equal([]string(tc.s.Type), []string{tc.kind}) || tc.s.Format != tc.format {
			t.Errorf("%s is %v %s, want %s %s", what, tc.s.Type, tc.s.Format, tc.kind, tc.format)
		}
	}
	if strategy := property(deployment, "strategy"); len(strategy.AllOf) != 1 || strategy.AllOf[0].Ref.String() != "#/components/schemas/io.k8s.api.apps.v1.DeploymentStrategy" || strategy.Description == "" {
		t.Errorf("a struct is %+v", strategy)
	}
	containers := property("io.k8s.api.core.v1.PodSpec", "containers")
	if containers.Extensions["x-kubernetes-patch-merge-key"] != "name" || containers.Extensions["x-kubernetes-patch-strategy"] != "merge" {
		t.Errorf("a list that is merged has %v", containers.Extensions)
	}
	if required := doc.Components.Schemas[deployment].Required; !slices.Contains(required, "template") || slices.Contains(required, "replicas") {
		t.Errorf("required are %v", required)
	}
	if top := doc.Components.Schemas["io.k8s.api.apps.v1.Deployment"]; top.Properties["apiVersion"].Type[0] != "string" || len(top.Properties["metadata"].AllOf) != 1 {
		t.Errorf("the top is %+v", top.Properties)
	}
}

// A type that refers to itself ends.
func TestSchemaOfARecursiveTypeEnds(t *testing.T) {
	t.Parallel()
	doc := decoded(t, kinds.Everywhere(), "apis/apiextensions.k8s.io/v1")
	const name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
	not := doc.Components.Schemas[name].Properties["not"]
	if ref := not.Ref.String() + strings.Join(refs(not.AllOf), ""); ref != "#/components/schemas/"+name {
		t.Errorf("its part is %+v", not)
	}
}

func refs(list []spec.Schema) (out []string) {
	for _, s := range list {
		out = append(out, s.Ref.String())
	}
	return out
}

func TestDefinedKindsAreDescribedByTheirSchemas(t *testing.T) {
	t.Parallel()
	served := withWidgets(t)
	size := decoded(t, served, "apis/example.com/v1").Components.Schemas["com.example.v1.Widget"].Properties["spec"].Properties["size"]
	if diff := cmp.Diff([]any{"small", "large"}, size.Enum); diff != "" || size.Description != "how large it is" {
		t.Errorf("size %+v (-want +got):\n%s", size, diff)
	}
	if decoded(t, served, "apis/example.com/v1beta1").Paths.Paths["/apis/example.com/v1beta1/namespaces/{namespace}/widgets"] == nil {
		t.Error("the other version has no path")
	}
}

func TestTagIdentifiesADocument(t *testing.T) {
	t.Parallel()
	tags := map[string]string{}
	served := withWidgets(t)
	for _, path := range []string{"api/v1", "apis/apps/v1", "apis/example.com/v1", "apis/example.com/v1beta1"} {
		first, err := Of(served, path)
		if err != nil {
			t.Fatal(err)
		}
		second, err := Of(served, path)
		if err != nil || first.Tag == "" || first.Tag != second.Tag {
			t.Errorf("%s: tags %s and %s, error %v", path, first.Tag, second.Tag, err)
		}
		if other, ok := tags[first.Tag]; ok {
			t.Errorf("%s has the tag of %s", path, other)
		}
		tags[first.Tag] = path
	}
}

// The second version of OpenAPI is one document, in two encodings.
func TestV2DescribesAllInOneDocument(t *testing.T) {
	t.Parallel()
	for name, served := range map[string]*kinds.Set{"built-in": kinds.Everywhere(), "defined": withWidgets(t)} {
		asJSON, err := V2(served, false)
		if err != nil {
			t.Fatal(err)
		}
		var doc spec.Swagger
		if err := json.Unmarshal(asJSON.JSON, &doc); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(asJSON.JSON), refPrefix) {
			t.Errorf("%s: a reference of version 3", name)
		}
		defined := name == "defined"
		if doc.Swagger != "2.0" || (doc.Definitions["com.example.v1.Widget"].Properties != nil) != defined {
			t.Errorf("%s: version %s, defined kinds %v", name, doc.Swagger, !defined)
		}
		get := doc.Paths.Paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"].Get
		if ref := get.Responses.StatusCodeResponses[200].Schema.Ref.String(); ref != "#/definitions/io.k8s.api.apps.v1.Deployment" {
			t.Errorf("%s: a Deployment is %s", name, ref)
		}
		if patch := doc.Paths.Paths["/api/v1/nodes/{name}"].Patch; len(patch.Parameters) != 4 || patch.Parameters[0].Type != "string" {
			t.Errorf("%s: parameters %+v", name, patch.Parameters)
		}
		asProtobuf, err := V2(served, true)
		if err != nil {
			t.Fatal(err)
		}
		if models := modelsIn(t, asProtobuf); models != len(doc.Definitions) || asProtobuf.Tag == "" {
			t.Errorf("%s: %d models, in JSON %d", name, models, len(doc.Definitions))
		}
	}
}

// modelsIn counts the models of a document as the client for discovery decodes it.
func modelsIn(t *testing.T, d *Document) int {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(d.JSON) // the client reports what is missing
	}))
	defer server.Close()
	client, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := client.OpenAPISchema()
	if err != nil {
		t.Fatal(err)
	}
	return len(decoded.GetDefinitions().GetAdditionalProperties())
}

func TestAnErrorIsCachedAsADocument(t *testing.T) {
	t.Parallel()
	r := recent{documents: map[subject]func() (*Document, error){}}
	served, calls := kinds.Everywhere().With(nil), 0
	for range 2 {
		if d, err := r.get(subject{served, "v2"}, func() (*Document, error) { calls++; return nil, errors.New("no document") }); d != nil || err == nil {
			t.Errorf("document %v, error %v", d, err)
		}
	}
	if d, err := r.get(subject{served, "other"}, func() (*Document, error) { return &Document{}, nil }); d == nil || err != nil || calls != 1 {
		t.Errorf("document %v, error %v after %d calls", d, err, calls)
	}
}
