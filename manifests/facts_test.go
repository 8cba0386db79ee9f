// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// differences are the lines in which our CRDs differ from the facts on
// purpose, with the reason. It is empty, and should stay so.
var differences = map[string]string{}

func TestCRDsAgreeWithTheFacts(t *testing.T) {
	t.Parallel()
	ours := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, crd := range append(mustCRDs(t), metadataCRD(t)) {
		ours[crd.Name] = crd
	}
	files, err := filepath.Glob("testdata/facts/crds/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("facts: %v, %d files", err, len(files))
	}
	for _, file := range files {
		base := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(base, func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			group, rest, _ := strings.Cut(base, "_")
			plural, version, _ := strings.Cut(rest, "_")
			crd := ours[plural+"."+group]
			if crd == nil {
				t.Fatalf("no CRD %s.%s", plural, group)
			}
			got := describe(t, crd, version)
			if diff := cmp.Diff(known(string(want)), known(got)); diff != "" {
				t.Errorf("differs from the facts (-facts +ours):\n%s", diff)
			}
		})
	}
}

func TestEveryCRDHasFactsOrIsOurs(t *testing.T) {
	t.Parallel()
	for _, crd := range mustCRDs(t) {
		for _, v := range crd.Spec.Versions {
			if strings.HasSuffix(crd.Spec.Group, ".capstan.dev") {
				continue
			}
			file := fmt.Sprintf("testdata/facts/crds/%s_%s_%s.txt", crd.Spec.Group, crd.Spec.Names.Plural, v.Name)
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s %s: no facts to compare with: %v", crd.Name, v.Name, err)
			}
		}
	}
}

// known splits a description into lines and leaves out deliberate differences.
func known(description string) []string {
	return slices.DeleteFunc(strings.Split(strings.TrimRight(description, "\n"), "\n"), func(line string) bool {
		return differences[strings.TrimSpace(line)] != ""
	})
}

func mustCRDs(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	all, err := CRDs()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func metadataCRD(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	data, err := os.ReadFile("testdata/clusterctl.cluster.x-k8s.io_metadata.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// describe prints one version of a CRD in the form of the facts.
func describe(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition, version string) string {
	t.Helper()
	i := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == version
	})
	if i < 0 {
		t.Fatalf("%s has no version %s", crd.Name, version)
	}
	v := crd.Spec.Versions[i]
	b := &strings.Builder{}
	var subresources []string
	if s := v.Subresources; s != nil {
		if s.Scale != nil {
			subresources = append(subresources, "scale")
		}
		if s.Status != nil {
			subresources = append(subresources, "status")
		}
	}
	names := crd.Spec.Names
	fmt.Fprintf(b, "# %s %s/%s  scope=%s plural=%s shortNames=%s categories=%s served=%s storage=%s deprecated=%s subresources=%s\n",
		names.Kind, crd.Spec.Group, v.Name, crd.Spec.Scope, names.Plural, strings.Join(names.ShortNames, ","), strings.Join(names.Categories, ","),
		pythonBool(v.Served), pythonBool(v.Storage), pythonBool(v.Deprecated), strings.Join(subresources, ","))
	fmt.Fprintln(b, "# name*: required. One line a field: name: type attributes")
	if v.Subresources != nil && v.Subresources.Scale != nil {
		scale := v.Subresources.Scale
		var paths []string
		if scale.LabelSelectorPath != nil {
			paths = append(paths, fmt.Sprintf("'labelSelectorPath': '%s'", *scale.LabelSelectorPath))
		}
		paths = append(paths, fmt.Sprintf("'specReplicasPath': '%s'", scale.SpecReplicasPath), fmt.Sprintf("'statusReplicasPath': '%s'", scale.StatusReplicasPath))
		fmt.Fprintf(b, "# scale: {%s}\n", strings.Join(paths, ", "))
	}
	for _, c := range v.AdditionalPrinterColumns {
		fmt.Fprintf(b, "# column %s %s %s priority=%d\n", c.Name, c.Type, c.JSONPath, c.Priority)
	}
	root := v.Schema.OpenAPIV3Schema
	fields(b, root, "", func(name string) bool {
		return name == "apiVersion" || name == "kind" || name == "metadata"
	})
	return b.String()
}

// fields prints the properties of an object, one per line, and the ones below each.
func fields(b *strings.Builder, s *apiextensionsv1.JSONSchemaProps, indent string, skip func(string) bool) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if skip(name) {
			continue
		}
		p := s.Properties[name]
		star := ""
		if slices.Contains(s.Required, name) {
			star = "*"
		}
		fmt.Fprintf(b, "%s%s%s: %s", indent, name, star, typeName(&p))
		if attributes := append(attributes(&p, ""), itemAttributes(&p)...); len(attributes) > 0 {
			fmt.Fprintf(b, "  %s", strings.Join(attributes, " "))
		}
		fmt.Fprintln(b)
		below := &p
		for below.Items != nil && below.Items.Schema != nil {
			below = below.Items.Schema
		}
		if below.AdditionalProperties != nil && below.AdditionalProperties.Schema != nil {
			below = below.AdditionalProperties.Schema
		}
		fields(b, below, indent+"  ", func(string) bool { return false })
	}
}

func typeName(s *apiextensionsv1.JSONSchemaProps) string {
	switch {
	case s.Type == "array":
		return "[]" + typeName(s.Items.Schema)
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		return "map[" + typeName(s.AdditionalProperties.Schema) + "]"
	case s.Type == "":
		return "any"
	default:
		return s.Type
	}
}

func itemAttributes(s *apiextensionsv1.JSONSchemaProps) []string {
	if s.Type != "array" {
		return nil
	}
	return attributes(s.Items.Schema, "item.")
}

// attributes are everything that a schema demands of a value.
func attributes(s *apiextensionsv1.JSONSchemaProps, prefix string) (all []string) {
	add := func(name string, value any) { all = append(all, fmt.Sprintf("%s%s=%v", prefix, name, value)) }
	number := func(name string, p *int64) {
		if p != nil {
			add(name, *p)
		}
	}
	text := func(name string, p *string) {
		if p != nil && *p != "" {
			add(name, *p)
		}
	}
	flag := func(name string, on bool) {
		if on {
			add(name, true)
		}
	}
	text("format", &s.Format)
	number("minLength", s.MinLength)
	number("maxLength", s.MaxLength)
	text("pattern", &s.Pattern)
	if s.Minimum != nil {
		add("minimum", *s.Minimum)
	}
	if s.Maximum != nil {
		add("maximum", *s.Maximum)
	}
	number("minItems", s.MinItems)
	number("maxItems", s.MaxItems)
	number("minProperties", s.MinProperties)
	number("maxProperties", s.MaxProperties)
	flag("exclusiveMinimum", s.ExclusiveMinimum)
	flag("exclusiveMaximum", s.ExclusiveMaximum)
	flag("uniqueItems", s.UniqueItems)
	flag("nullable", s.Nullable)
	text("listType", s.XListType)
	if len(s.XListMapKeys) > 0 {
		add("listMapKeys", "["+strings.Join(s.XListMapKeys, ",")+"]")
	}
	text("mapType", s.XMapType)
	if len(s.Enum) > 0 {
		values := make([]string, len(s.Enum))
		for i, v := range s.Enum {
			values[i] = strings.Trim(string(v.Raw), `"`)
		}
		add("enum", "["+strings.Join(values, ",")+"]")
	}
	if s.Default != nil {
		value := strings.Trim(string(s.Default.Raw), `"`)
		if strings.HasPrefix(value, "{") {
			value = strings.NewReplacer(`"`, "'", ":", ": ", ",", ", ").Replace(value)
		}
		add("default", value)
	}
	if len(s.XValidations) > 0 {
		rules := make([]string, len(s.XValidations))
		for i, v := range s.XValidations {
			rules[i] = "`" + v.Rule + "`"
		}
		add("cel", strings.Join(rules, ","))
	}
	flag("intOrString", s.XIntOrString)
	flag("preserveUnknown", s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields)
	flag("embeddedResource", s.XEmbeddedResource)
	return all
}

func pythonBool(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

// TestTheServerWarnsInItsOwnWords: they name the version to use instead.
func TestTheServerWarnsInItsOwnWords(t *testing.T) {
	t.Parallel()
	for _, crd := range mustCRDs(t) {
		for _, v := range crd.Spec.Versions {
			if v.DeprecationWarning != nil {
				t.Errorf("%s %s warns with %q", crd.Name, v.Name, *v.DeprecationWarning)
			}
		}
	}
}

// TestListsInListsAreBounded looks where the facts do not: they print what is
// demanded of the items of a list, and not of the items of those.
func TestListsInListsAreBounded(t *testing.T) {
	t.Parallel()
	found := map[string]int{}
	var walk func(name string, s *apiextensionsv1.JSONSchemaProps)
	walk = func(name string, s *apiextensionsv1.JSONSchemaProps) {
		if s.Type == "array" && s.Items.Schema.Type == "array" {
			found[name+" "+strings.Join(itemAttributes(s.Items.Schema), " ")]++
		}
		for child, p := range s.Properties {
			walk(child, &p)
		}
		if s.Items != nil {
			walk(name, s.Items.Schema)
		}
	}
	for _, crd := range mustCRDs(t) {
		for _, v := range crd.Spec.Versions {
			walk("", v.Schema.OpenAPIV3Schema)
		}
	}
	// Of KubeadmConfig and KubeadmControlPlane, and of their templates, in two versions.
	if diff := cmp.Diff(map[string]int{"mounts item.minLength=1 item.maxLength=512": 8}, found); diff != "" {
		t.Errorf("lists in lists (-want +got):\n%s", diff)
	}
}

// TestReleaseIsTheOneThatThePeerIsComparedWith also keeps it a version that
// clusterctl can parse.
func TestReleaseIsTheOneThatThePeerIsComparedWith(t *testing.T) {
	t.Parallel()
	mod, err := os.ReadFile("../peer/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(mod, []byte("\tsigs.k8s.io/cluster-api/api "+Release+"\n")) {
		t.Errorf("Release is %s, and peer/go.mod has another one", Release)
	}
}
