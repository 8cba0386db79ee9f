// SPDX-License-Identifier: Apache-2.0

package crds_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/crds"
)

func widget(t *testing.T, rest string) *unstructured.Unstructured {
	t.Helper()
	return parse(t, "{apiVersion: example.com/v1, kind: Widget, metadata: {name: w, namespace: default}"+rest+"}")
}

// fitted is a widget as a decoder of the first version returns it.
func fitted(t *testing.T, v *crds.Version, rest string) *unstructured.Unstructured {
	t.Helper()
	u := widget(t, rest)
	if _, err := v.Fit(u); err != nil {
		t.Fatal(err)
	}
	return u
}

// The rows are what the documentation of Kubernetes has about pruning and defaults.
func TestFitPrunesAndSetsDefaults(t *testing.T) {
	t.Parallel()
	v := version(t, "v1")
	for name, tc := range map[string]struct {
		rest, want string
		unknown    []string
	}{
		"defaults":                {", spec: {size: small}", ", spec: {size: small, replicas: 1, most: 3}", nil},
		"given values":            {", spec: {size: small, replicas: 0, most: 2}", ", spec: {size: small, replicas: 0, most: 2}", nil},
		"no place for defaults":   {"", "", nil},
		"an unknown field":        {", spec: {size: small, bogus: 1}", ", spec: {size: small, replicas: 1, most: 3}", []string{"spec.bogus"}},
		"one at the top":          {", spec: {size: small}, bogus: {a: 1}", ", spec: {size: small, replicas: 1, most: 3}", []string{"bogus"}},
		"one of the status":       {", spec: {size: small}, status: {x: 1}", ", spec: {size: small, replicas: 1, most: 3}, status: {}", []string{"status.x"}},
		"fields that are kept":    {", spec: {size: small, any: {a: {b: 1}}}", ", spec: {size: small, replicas: 1, most: 3, any: {a: {b: 1}}}", nil},
		"null, which is allowed":  {", spec: {size: small, note: null}", ", spec: {size: small, replicas: 1, most: 3, note: null}", nil},
		"null, with a default":    {", spec: {size: small, replicas: null}", ", spec: {size: small, replicas: 1, most: 3}", nil},
		"null, without a default": {", spec: {size: small, any: null}", ", spec: {size: small, replicas: 1, most: 3}", nil},
		"an embedded object":      {", spec: {size: small, template: {apiVersion: v1, kind: Pod, metadata: {name: p, bogus: 1}, x: 1}}", ", spec: {size: small, replicas: 1, most: 3, template: {apiVersion: v1, kind: Pod, metadata: {name: p}, x: 1}}", []string{"spec.template.metadata.bogus"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := widget(t, tc.rest)
			unknown, err := v.Fit(u)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(widget(t, tc.want).Object, u.Object); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
			if !slices.Equal(unknown, tc.unknown) {
				t.Errorf("unknown fields %q, want %q", unknown, tc.unknown)
			}
		})
	}
}

func TestFitGivesAnObjectTheVersion(t *testing.T) {
	t.Parallel()
	u := widget(t, ", spec: {size: small}")
	if _, err := version(t, "v1alpha1").Fit(u); err != nil || u.GetAPIVersion() != "example.com/v1alpha1" || u.GetName() != "w" {
		t.Errorf("object %v, error %v", u.Object, err)
	}
}

func TestFitRefusesBadMetadata(t *testing.T) {
	t.Parallel()
	v := version(t, "v1")
	for _, text := range []string{
		"{kind: Widget, metadata: x}", "{kind: Widget, metadata: {labels: x}}", "{kind: Widget, metadata: {name: {}}}", "{kind: Widget, metadata: {creationTimestamp: x}}",
		"{kind: Widget, metadata: {ownerReferences: {}}}", "{kind: Widget, metadata: {}, spec: {template: {metadata: {labels: 5}}}}",
	} {
		u := parse(t, text)
		if unknown, err := v.Fit(u); err == nil {
			t.Errorf("%s: %v, unknown %v", text, u.Object, unknown)
		}
	}
}

func TestPrepareResetsWhatAWriterMustNotChange(t *testing.T) {
	t.Parallel()
	v := version(t, "v1")
	const spec, other = ", spec: {size: small, replicas: 1, most: 3}", ", spec: {size: small, replicas: 2, most: 3}"
	for name, tc := range map[string]struct {
		sub, was, next, want string // without was: creation
		generation           int64
	}{
		"creation drops the status":         {"", "", spec + ", status: {phase: x}", spec, 1},
		"a new spec counts":                 {"", spec + ", status: {phase: x}", other + ", status: {phase: y}", other + ", status: {phase: x}", 8},
		"a status does not":                 {"", spec + ", status: {phase: x}", spec + ", status: {phase: y}", spec + ", status: {phase: x}", 7},
		"the status alone":                  {"status", spec + ", status: {phase: x}", other + ", status: {phase: y}", spec + ", status: {phase: y}", 7},
		"an update cannot remove a status":  {"", spec + ", status: {phase: x}", spec, spec + ", status: {phase: x}", 7},
		"a write of the status removes one": {"status", spec + ", status: {phase: x}", spec, spec, 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next := widget(t, tc.next)
			var was *unstructured.Unstructured
			if tc.was != "" {
				was = widget(t, tc.was)
				was.SetGeneration(7)
				next.SetGeneration(7)
			}
			if err := v.Prepare(tc.sub, was, next); err != nil {
				t.Fatal(err)
			}
			want := widget(t, tc.want)
			want.SetGeneration(tc.generation)
			if diff := cmp.Diff(want.Object, next.Object); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVersionWithoutStatusHasItInTheObject(t *testing.T) {
	t.Parallel()
	v := version(t, "v1alpha1")
	next := widget(t, ", spec: {size: small}, status: {phase: x}")
	if err := v.Prepare("", nil, next); err != nil || next.Object["status"] == nil {
		t.Errorf("object %v, error %v", next.Object, err)
	}
}

func TestValidateHoldsObjectsToTheirSchema(t *testing.T) {
	t.Parallel()
	v := version(t, "v1")
	for name, tc := range map[string]struct{ sub, was, next, want string }{
		"a good one":             {next: ", spec: {size: small}"},
		"no spec":                {next: "", want: "spec: Required value"},
		"no size":                {next: ", spec: {}", want: "spec.size: Required value"},
		"another size":           {next: ", spec: {size: huge}", want: `spec.size: Unsupported value: "huge"`},
		"another type":           {next: ", spec: {size: small, replicas: two}", want: "spec.replicas: Invalid value"},
		"a rule":                 {next: ", spec: {size: small, replicas: 4}", want: "at most most"},
		"no change":              {was: ", spec: {size: small}", next: ", spec: {size: small}"},
		"a rule for changes":     {was: ", spec: {size: small}", next: ", spec: {size: large}", want: "size is fixed"},
		"a status":               {sub: "status", was: ", spec: {size: small}", next: ", spec: {size: small}, status: {replicas: 1}"},
		"a bad status":           {sub: "status", was: ", spec: {size: small}", next: ", spec: {size: small}, status: {replicas: -1}", want: "status.replicas: Invalid value"},
		"replicas cannot be -1":  {next: ", spec: {size: small, replicas: -1}", want: "should be a non-negative integer"},
		"embedded, of no kind":   {next: ", spec: {size: small, template: {apiVersion: v1}}", want: "spec.template.kind: Required value"},
		"embedded, a bad object": {next: ", spec: {size: small, template: {apiVersion: v1, kind: Pod, metadata: {name: a/b}}}", want: "spec.template.metadata.name: Invalid value"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next := fitted(t, v, tc.next)
			var was *unstructured.Unstructured
			if tc.was != "" {
				was = fitted(t, v, tc.was)
				was.SetResourceVersion("1")
				next.SetResourceVersion("1")
			}
			errs, err := v.Validate(tc.sub, was, next)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if len(errs) > 0 {
				got = errs.ToAggregate().Error()
			}
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestTableHasTheColumnsOfTheDefinition(t *testing.T) {
	t.Parallel()
	first, second := widget(t, ", spec: {size: small, replicas: 2}"), widget(t, "")
	for name, tc := range map[string]struct {
		version string
		columns []string
		cells   []int
	}{
		"its own":     {"v1", []string{"Name", "Size", "Replicas"}, []int{3, 3}},
		"the default": {"v1alpha1", []string{"Name", "Age"}, []int{2, 2}},
	} {
		table, err := version(t, tc.version).Table(first, second)
		if err != nil {
			t.Fatal(err)
		}
		var columns []string
		for _, c := range table.ColumnDefinitions {
			columns = append(columns, c.Name)
		}
		var cells []int
		for _, r := range table.Rows {
			cells = append(cells, len(r.Cells))
		}
		if diff := cmp.Diff(tc.columns, columns); diff != "" || !slices.Equal(cells, tc.cells) || table.Rows[0].Cells[0] != "w" {
			t.Errorf("%s: cells %v (-want +got):\n%s", name, cells, diff)
		}
		if tc.version == "v1" && (table.Rows[0].Cells[1] != "small" || table.Rows[0].Cells[2] != int64(2) || table.Rows[1].Cells[1] != nil) {
			t.Errorf("rows %v", table.Rows)
		}
	}
}

func TestFieldsAreThoseThatAreSelectable(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{"v1": {"spec.size"}, "v1alpha1": nil} {
		if got, err := version(t, name).Selectable(); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, error %v, want %v", name, got, err, want)
		}
	}
	for rest, want := range map[string]string{", spec: {size: small}": "small", "": ""} {
		got, err := version(t, "v1").Fields(widget(t, rest))
		if err != nil || got["spec.size"] != want || got["metadata.name"] != "w" || got["metadata.namespace"] != "default" {
			t.Errorf("%s: %v, error %v", rest, got, err)
		}
	}
}

func TestManagerIsOfTheSubresource(t *testing.T) {
	t.Parallel()
	v := version(t, "v1")
	for sub, want := range map[string]string{"": `{"f:spec":{"f:size":{}}}`, "status": `{"f:status":{"f:phase":{}}}`} {
		m, err := v.Manager(sub)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := v.Manager(sub); err != nil || again != m {
			t.Errorf("%q: another manager, error %v", sub, err)
		}
		out, err := m.Apply(widget(t, ""), widget(t, ", spec: {size: small}, status: {phase: x}"), "me", true)
		if err != nil {
			t.Fatal(err)
		}
		managed := out.(*unstructured.Unstructured).GetManagedFields()
		if len(managed) != 1 || string(managed[0].FieldsV1.Raw) != want || managed[0].APIVersion != "example.com/v1" {
			t.Errorf("%q: %v, want %s", sub, managed, want)
		}
	}
}

// Objects that were written in one version have managers that apply in another one.
func TestManagerConvertsBetweenVersions(t *testing.T) {
	t.Parallel()
	old, err := version(t, "v1alpha1").Manager("")
	if err != nil {
		t.Fatal(err)
	}
	intent := widget(t, ", spec: {size: small}")
	intent.SetAPIVersion("example.com/v1alpha1")
	latest := widget(t, "")
	latest.SetAPIVersion("example.com/v1alpha1")
	out, err := old.Apply(latest, intent, "old", false)
	if err != nil {
		t.Fatal(err)
	}
	stored := out.(*unstructured.Unstructured)
	stored.SetAPIVersion("example.com/v1")
	current, err := version(t, "v1").Manager("")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := current.Apply(stored.DeepCopy(), widget(t, ", spec: {size: large}"), "new", false); err == nil || !strings.Contains(err.Error(), `conflict with "old"`) {
		t.Errorf("another value: %v, want a conflict", err)
	}
	shared, err := current.Apply(stored.DeepCopy(), widget(t, ", spec: {size: small}"), "new", false)
	if err != nil || len(shared.(*unstructured.Unstructured).GetManagedFields()) != 2 {
		t.Errorf("the same value: %v, error %v", shared, err)
	}
}

func TestOpenAPIDescribesVersions(t *testing.T) {
	t.Parallel()
	v := version(t, "v1")
	raw, err := crds.OpenAPIV3([]*crds.Version{v})
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths      map[string]any
		Components struct{ Schemas map[string]map[string]any }
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/apis/example.com/v1/widgets", "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}", "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}/status"} {
		if doc.Paths[path] == nil {
			t.Errorf("%s is not described", path)
		}
	}
	spec, _, _ := unstructured.NestedMap(doc.Components.Schemas["com.example.v1.Widget"], "properties", "spec", "properties")
	if len(spec) != 6 || spec["size"].(map[string]any)["enum"] == nil {
		t.Errorf("spec %v", spec)
	}
}
