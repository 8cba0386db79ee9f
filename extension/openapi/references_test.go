// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/capstan-dev/capstan/extension/catalog"
)

// TestDocumentHasWhatItRefersTo, and no other component: a client is generated from it.
func TestDocumentHasWhatItRefersTo(t *testing.T) {
	t.Parallel()
	doc, err := Document(catalog.Default(), "v0")
	if err != nil {
		t.Fatal(err)
	}
	reached := map[string]bool{}
	var follow func(s *spec.Schema)
	follow = func(s *spec.Schema) {
		for _, name := range references(s) {
			component := doc.Components.Schemas[name]
			if component == nil {
				t.Errorf("component %s does not exist", name)
			} else if !reached[name] {
				reached[name] = true
				follow(component)
			}
		}
	}
	for _, p := range doc.Paths.Paths {
		follow(p.Post.RequestBody.Content[jsonContent].Schema)
		follow(p.Post.Responses.StatusCodeResponses[200].Content[jsonContent].Schema)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(doc.Components.Schemas)), slices.Sorted(maps.Keys(reached))); diff != "" {
		t.Errorf("components (-all +reached):\n%s", diff)
	}
}

func TestReferencesAreFoundInAllParts(t *testing.T) {
	t.Parallel()
	to := func(name string) *spec.Schema { return spec.RefSchema(componentPrefix + name) }
	s := to("self")
	s.Properties = map[string]spec.Schema{"p": *to("property")}
	s.AllOf, s.AnyOf, s.OneOf = []spec.Schema{*to("all")}, []spec.Schema{*to("any")}, []spec.Schema{*to("one")}
	s.Items = &spec.SchemaOrArray{Schema: to("item")}
	s.AdditionalProperties = &spec.SchemaOrBool{Schema: spec.ArrayProperty(to("value"))}
	got := references(s)
	slices.Sort(got)
	if want := []string{"all", "any", "item", "one", "property", "self", "value"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := references(spec.RefSchema("https://example.com/other")); len(got) > 0 {
		t.Errorf("a reference to another document is a component: %q", got)
	}
}

func TestOperationIDIsNameOfFunction(t *testing.T) {
	t.Parallel()
	for want, h := range map[string]catalog.GroupVersionHook{
		"hooksRuntimeClusterXK8sIoV1alpha1Discovery": {Group: "hooks.runtime.cluster.x-k8s.io", Version: "v1alpha1", Hook: "Discovery"},
		"exampleV2DoIt": {Group: "example", Version: "v2", Hook: "DoIt"},
		"aBV1H":         {Group: "a..b-", Version: "v1", Hook: "H"},
	} {
		if got := operationID(h); got != want {
			t.Errorf("%s: %s, want %s", h, got, want)
		}
	}
}

// TestDocumentsDoNotShareMemory: callers may change what they receive.
func TestDocumentsDoNotShareMemory(t *testing.T) {
	t.Parallel()
	want := JSON()
	clear(JSON())
	if !bytes.Equal(JSON(), want) {
		t.Error("a caller has changed the committed document")
	}
	before, err := Render(catalog.Default(), Version)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := Document(catalog.Default(), Version)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range doc.Components.Schemas {
		s.Description, s.Required = "changed", nil
	}
	if after, err := Render(catalog.Default(), Version); err != nil || !bytes.Equal(before, after) {
		t.Errorf("a caller has changed the schemas of later documents: %v", err)
	}
}
