// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

// widgets is a definition with all that one may have.
const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList, shortNames: [wd], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}
    additionalPrinterColumns:
    - {name: Size, type: string, jsonPath: .spec.size}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    selectableFields: [{jsonPath: .spec.size}]
    schema:
      openAPIV3Schema: &schema
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [size]
            x-kubernetes-validations:
            - {rule: "!has(self.replicas) || self.replicas <= self.most", message: "no more than most"}
            properties:
              size: {type: string, enum: [small, large]}
              replicas: {type: integer}
              most: {type: integer, default: 3}
              ports:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [port]
                items: {type: object, required: [port], properties: {port: {type: integer}, name: {type: string}}}
          status: {type: object, properties: {replicas: {type: integer}, selector: {type: string}, phase: {type: string}}}
  - name: v1alpha1
    served: true
    storage: false
    deprecated: true
    subresources: {status: {}}
    selectableFields: [{jsonPath: .spec.size}]
    schema: {openAPIV3Schema: *schema}
`

const (
	definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	widgetsPath     = "/apis/example.com/v1/namespaces/default/widgets"
	asYAML          = "application/yaml"
	asApply         = "application/apply-patch+yaml"
	asMerge         = "application/merge-patch+json"
)

// call sends a request that must be answered with code, and decodes the answer.
func call(t *testing.T, cfg *rest.Config, code int, method, path, contentType, body string) *unstructured.Unstructured {
	t.Helper()
	resp, got := send(t, cfg, method, path, contentType, "application/json", body)
	u := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(got, &u.Object); err != nil {
		t.Fatalf("%s %s: %v: %s", method, path, err, got)
	}
	if resp.StatusCode != code {
		t.Fatalf("%s %s: %s, want %d: %s", method, path, resp.Status, code, got)
	}
	return u
}

func widget(name, spec string) string {
	return `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"` + name + `"},"spec":` + spec + `}`
}

func at(t *testing.T, u *unstructured.Unstructured, path ...string) any {
	t.Helper()
	v, _, err := unstructured.NestedFieldNoCopy(u.Object, path...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Knative has its own Services, and others Jobs: the rules of the built-in kinds do
// not apply to them.
func TestAKindWithTheNameOfABuiltInOneIsItsOwn(t *testing.T) {
	t.Parallel()
	admin := start(t).admin(t)
	for resource, kind := range map[string]string{"services": "Service", "jobs": "Job", "deployments": "Deployment", "secrets": "Secret", "pods": "Pod"} {
		call(t, admin, http.StatusCreated, "POST", definitionsPath, asYAML, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: `+resource+`.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: `+resource+`, kind: `+kind+`}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`)
		path := "/apis/example.com/v1/namespaces/default/" + resource
		made := call(t, admin, http.StatusCreated, "POST", path, "application/json",
			`{"apiVersion":"example.com/v1","kind":"`+kind+`","metadata":{"name":"a"},"spec":{"x":1}}`)
		if diff := cmp.Diff(map[string]any{"x": int64(1)}, at(t, made, "spec")); diff != "" || made.Object["status"] != nil || made.Object["type"] != nil || made.GetLabels() != nil {
			t.Errorf("%s: %v", resource, made.Object)
		}
		call(t, admin, http.StatusOK, "DELETE", path+"/a", "", "")
		if got := answers(t, admin, path+"/a"); got != http.StatusNotFound {
			t.Errorf("%s: deleted, it answers %d", resource, got)
		}
	}
}

func TestADefinitionIsEstablishedAndItsKindIsServed(t *testing.T) {
	t.Parallel()
	c := start(t)
	admin := c.admin(t)
	if got := answers(t, admin, widgetsPath); got != http.StatusNotFound {
		t.Errorf("before its definition: %d", got)
	}
	call(t, admin, http.StatusCreated, "POST", definitionsPath, asYAML, widgets)
	crd := call(t, admin, http.StatusOK, "GET", definitionsPath+"/widgets.example.com", "", "")
	for _, want := range []string{`"type":"Established"`, `"type":"NamesAccepted"`, `"storedVersions":["v1"]`, `"kind":"Widget"`} {
		if raw, _ := json.Marshal(crd.Object["status"]); !strings.Contains(string(raw), want) {
			t.Errorf("status %s, want %s", raw, want)
		}
	}
	next := watching(t, admin, widgetsPath+"?watch=true", "application/json")
	made := call(t, admin, http.StatusCreated, "POST", widgetsPath, "", widget("a", `{"size":"small","bogus":1}`))
	if at(t, made, "spec", "most") != int64(3) || at(t, made, "spec", "bogus") != nil || made.GetGeneration() != 1 {
		t.Errorf("created %v, want the default and nothing unknown", made.Object)
	}
	if ev := next(); ev.Type != "ADDED" || ev.Object.Metadata.Name != "a" {
		t.Errorf("event %+v", ev)
	}
	resp, _ := send(t, admin, "GET", "/apis/example.com/v1alpha1/namespaces/default/widgets/a", "", "application/json", "")
	if w := resp.Header.Get("Warning"); w != `299 - "example.com/v1alpha1 Widget is deprecated; use example.com/v1 Widget"` {
		t.Errorf("warning %s", w)
	}
	old := call(t, admin, http.StatusOK, "GET", "/apis/example.com/v1alpha1/widgets", "", "")
	if items := at(t, old, "items").([]any); len(items) != 1 || items[0].(map[string]any)["apiVersion"] != "example.com/v1alpha1" || old.GetKind() != "WidgetList" {
		t.Errorf("listed in the other version: %v", old.Object)
	}
	for name, tc := range map[string]struct{ method, path, contentType, body, message string }{
		"a value that cannot be":   {"POST", widgetsPath, "", widget("b", `{"size":"huge"}`), "Unsupported value"},
		"a field that is missing":  {"POST", widgetsPath, "", widget("b", `{}`), "spec.size: Required value"},
		"a rule that is broken":    {"POST", widgetsPath, "", widget("b", `{"size":"small","replicas":4}`), "no more than most"},
		"a patch that breaks one":  {"PATCH", widgetsPath + "/a", asMerge, `{"spec":{"replicas":9}}`, "no more than most"},
		"an apply that breaks one": {"PATCH", widgetsPath + "/a?fieldManager=x", asApply, widget("a", `{"replicas":9}`), "no more than most"},
	} {
		if got := call(t, admin, http.StatusUnprocessableEntity, tc.method, tc.path, tc.contentType, tc.body); !strings.Contains(at(t, got, "message").(string), tc.message) {
			t.Errorf("%s: %v", name, got.Object)
		}
	}
	call(t, admin, http.StatusBadRequest, "POST", widgetsPath+"?fieldValidation=Strict", "", widget("b", `{"size":"small","bogus":1}`))
	call(t, admin, http.StatusUnsupportedMediaType, "PATCH", widgetsPath+"/a", "application/strategic-merge-patch+json", "{}")
}

func TestObjectsOfADefinitionAreAppliedScaledAndSelected(t *testing.T) {
	t.Parallel()
	c := start(t)
	admin := c.admin(t)
	call(t, admin, http.StatusCreated, "POST", definitionsPath, asYAML, widgets)
	call(t, admin, http.StatusCreated, "PATCH", widgetsPath+"/a?fieldManager=one", asApply, widget("a", `{"size":"small","replicas":1,"ports":[{"port":1,"name":"x"}]}`))
	both := call(t, admin, http.StatusOK, "PATCH", widgetsPath+"/a?fieldManager=two", asApply, widget("a", `{"ports":[{"port":2}]}`))
	if ports := at(t, both, "spec", "ports").([]any); len(ports) != 2 || at(t, both, "spec", "size") != "small" {
		t.Errorf("two managers' ports %v", ports)
	}
	conflict := call(t, admin, http.StatusConflict, "PATCH", widgetsPath+"/a?fieldManager=two", asApply, widget("a", `{"size":"large"}`))
	if !strings.Contains(at(t, conflict, "message").(string), `conflict with "one"`) {
		t.Errorf("conflict %v", conflict.Object)
	}
	scale := call(t, admin, http.StatusOK, "PATCH", widgetsPath+"/a/scale", asMerge, `{"spec":{"replicas":2}}`)
	if scale.GetKind() != "Scale" || at(t, scale, "spec", "replicas") != int64(2) {
		t.Errorf("scale %v", scale.Object)
	}
	status := call(t, admin, http.StatusOK, "PATCH", widgetsPath+"/a/status", asMerge, `{"spec":{"size":"large"},"status":{"replicas":1,"selector":"a=b"}}`)
	if at(t, status, "spec", "size") != "small" || at(t, status, "status", "selector") != "a=b" || status.GetGeneration() != 3 {
		t.Errorf("status %v", status.Object)
	}
	if got := call(t, admin, http.StatusOK, "GET", widgetsPath+"/a/scale", "", ""); at(t, got, "status", "selector") != "a=b" || at(t, got, "status", "replicas") != int64(1) {
		t.Errorf("scale %v", got.Object)
	}
	call(t, admin, http.StatusCreated, "POST", widgetsPath, "", widget("b", `{"size":"large"}`))
	for query, want := range map[string]int{"?fieldSelector=spec.size%3Dlarge": 1, "?fieldSelector=spec.size!%3Dlarge": 1, "?fieldSelector=metadata.name%3Da": 1, "": 2} {
		if got := at(t, call(t, admin, http.StatusOK, "GET", widgetsPath+query, "", ""), "items").([]any); len(got) != want {
			t.Errorf("%q selects %d, want %d", query, len(got), want)
		}
	}
	call(t, admin, http.StatusBadRequest, "GET", widgetsPath+"?fieldSelector=spec.most%3D3", "", "")
	_, raw := send(t, admin, "GET", widgetsPath, "", "application/json;as=Table;v=v1;g=meta.k8s.io", "")
	var table metav1.Table
	if err := json.Unmarshal(raw, &table); err != nil {
		t.Fatal(err)
	}
	if len(table.ColumnDefinitions) != 3 || len(table.Rows) != 2 || table.Rows[0].Cells[1] != "small" {
		t.Errorf("table %s", raw)
	}
}

func TestADefinitionThatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	admin := start(t).admin(t)
	for name, tc := range map[string]struct{ old, replacement, message string }{
		"without a schema":    {"schema: {openAPIV3Schema: *schema}", "", "openAPIV3Schema: Required value"},
		"not structural":      {"enum: [small, large]}", "not: {type: integer}}", "must be empty to be structural"},
		"a rule of no sense":  {"self.replicas <= self.most", "self.nope", "undefined field"},
		"two storage ones":    {"storage: false", "storage: true", "must have exactly one version marked as storage version"},
		"under another name":  {"name: widgets.example.com", "name: gadgets.example.com", "must be spec.names.plural+"},
		"a column of nothing": {".spec.size}\n    - {name: Age", "spec..}\n    - {name: Age", "must be a simple json path"},
	} {
		if !strings.Contains(widgets, tc.old) {
			t.Fatalf("%s: nothing to replace", name)
		}
		got := call(t, admin, http.StatusUnprocessableEntity, "POST", definitionsPath, asYAML, strings.Replace(widgets, tc.old, tc.replacement, 1))
		if !strings.Contains(at(t, got, "message").(string), tc.message) {
			t.Errorf("%s: %v", name, got.Object)
		}
	}
}

func TestWhatADefinitionDefinesSurvivesARestart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "journal")
	kept := func(o *apiserver.Options) { o.Journal = store.FileAt(file, discard()) }
	listeners := apiserver.NewListeners(discard())
	t.Cleanup(func() { _ = listeners.Close() })
	c := serve(t, listeners, kept)
	admin := c.admin(t)
	call(t, admin, http.StatusCreated, "POST", definitionsPath, asYAML, widgets)
	before := call(t, admin, http.StatusCreated, "POST", "/apis/example.com/v1alpha1/namespaces/default/widgets", "", strings.Replace(widget("a", `{"size":"small"}`), "/v1", "/v1alpha1", 1))
	c.Close()
	listeners.Shut(netip.MustParseAddrPort(strings.TrimPrefix(c.host, "https://")))

	again := serve(t, listeners, kept)
	t.Cleanup(again.Close)
	admin = again.admin(t)
	after := call(t, admin, http.StatusOK, "GET", widgetsPath+"/a", "", "")
	if after.GetUID() != before.GetUID() || after.GetResourceVersion() != before.GetResourceVersion() || after.GetAPIVersion() != "example.com/v1" {
		t.Errorf("after the restart %v, before %v", after.Object, before.Object)
	}
	call(t, admin, http.StatusOK, "PATCH", widgetsPath+"/a?fieldManager=x", asApply, widget("a", `{"size":"small"}`))
}

func TestADefinitionIsDeletedAfterTheLastOfItsObjects(t *testing.T) {
	t.Parallel()
	admin := start(t).admin(t)
	call(t, admin, http.StatusCreated, "POST", definitionsPath, asYAML, widgets)
	call(t, admin, http.StatusCreated, "POST", widgetsPath, "", widget("free", `{"size":"small"}`))
	held := strings.Replace(widget("held", `{"size":"small"}`), `"name"`, `"finalizers":["example.com/hold"],"name"`, 1)
	call(t, admin, http.StatusCreated, "POST", widgetsPath, "", held)
	call(t, admin, http.StatusOK, "DELETE", definitionsPath+"/widgets.example.com", "", "")
	call(t, admin, http.StatusNotFound, "GET", widgetsPath+"/free", "", "")
	call(t, admin, http.StatusMethodNotAllowed, "POST", widgetsPath, "", widget("late", `{"size":"small"}`))
	call(t, admin, http.StatusOK, "GET", definitionsPath+"/widgets.example.com", "", "")
	call(t, admin, http.StatusOK, "PATCH", widgetsPath+"/held", asMerge, `{"metadata":{"finalizers":null}}`)
	call(t, admin, http.StatusNotFound, "GET", definitionsPath+"/widgets.example.com", "", "")
	if got := answers(t, admin, widgetsPath); got != http.StatusNotFound {
		t.Errorf("after its definition: %d", got)
	}
}
