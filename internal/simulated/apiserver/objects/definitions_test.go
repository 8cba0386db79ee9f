// SPDX-License-Identifier: Apache-2.0

package objects_test

import (
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
)

const definitionText = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: &schema
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer, default: 3, maximum: 9}}}
          status: {type: object, properties: {phase: {type: string}}}
  - {name: v1alpha1, served: true, storage: false, subresources: {status: {}}, schema: *schema}
`

const widgetText = "{apiVersion: example.com/v1, kind: Widget, metadata: {namespace: default, name: w}, spec: {}, status: {phase: mine}}"

func conditions(t *testing.T, u *unstructured.Unstructured) string {
	t.Helper()
	var out []string
	list, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		m := c.(map[string]any)
		out = append(out, fmt.Sprintf("%s=%s %s", m["type"], m["status"], m["reason"]))
	}
	return strings.Join(out, ", ")
}

func TestDefinitionServesItsKinds(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	if k := y.store.Kinds().ByKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}); k != nil {
		t.Errorf("served before its definition: %v", k)
	}
	crd := y.mustCreate(definitionText)
	if got := conditions(t, y.latest(crd)); got != "NamesAccepted=True NoConflicts, Established=True InitialNamesAccepted" {
		t.Errorf("got conditions %s", got)
	}
	w := y.mustCreate(strings.Replace(widgetText, "spec: {}", "spec: {size: 3}", 1))
	if at(w, "spec.size") != int64(3) || w.Object["status"] != nil || w.GetGeneration() != 1 {
		t.Errorf("got %v, want no status", w.Object)
	}
	_, err := y.change(w, byClient, set(t, int64(10), "spec.size"))
	refused(t, err, metav1.StatusReasonInvalid, "spec.size: Invalid value: 10")
	if got, err := y.change(w, through("status"), func(u *unstructured.Unstructured) {
		set(t, "Ready", "status.phase")(u)
		set(t, int64(5), "spec.size")(u)
	}); err != nil || at(got, "status.phase") != "Ready" || at(got, "spec.size") != int64(3) || got.GetGeneration() != 1 {
		t.Errorf("status: %v, error %v", got, err)
	}
	if got, err := y.change(w, byClient, set(t, int64(5), "spec.size")); err != nil || got.GetGeneration() != 2 || at(got, "status.phase") != "Ready" {
		t.Errorf("spec: %v, error %v", got, err)
	}
	alpha := object(t, strings.Replace(widgetText, "/v1", "/v1alpha1", 1))
	if got := y.latest(alpha); got.GetAPIVersion() != "example.com/v1alpha1" || at(got, "spec.size") != int64(5) {
		t.Errorf("in its other version: %v", got)
	}
}

func TestReceiveChecksCustomObjects(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.mustCreate(definitionText)
	k := y.kind(object(t, widgetText))
	for name, tc := range map[string]struct{ body, validation, want string }{
		"as it should be":          {widgetText, metav1.FieldValidationStrict, ""},
		"a field that is unknown":  {strings.Replace(widgetText, "spec: {}", "spec: {bogus: 1}", 1), metav1.FieldValidationStrict, `unknown field "spec.bogus"`},
		"one that is only dropped": {strings.Replace(widgetText, "spec: {}", "spec: {bogus: 1}", 1), metav1.FieldValidationIgnore, ""},
		"another version":          {strings.Replace(widgetText, "/v1", "/v1alpha1", 1), "", "the API version in the data (example.com/v1alpha1) does not match the expected API version (example.com/v1)"},
		"no object":                {"[]", "", "the object provided is unrecognized (must be of type Widget)"},
	} {
		raw, err := []byte(tc.body), error(nil)
		if strings.HasPrefix(tc.body, "{") {
			raw, err = object(t, tc.body).MarshalJSON()
		}
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := objects.Receive(k, raw, tc.validation)
		if tc.want != "" {
			refused(t, err, metav1.StatusReasonBadRequest, tc.want)
		} else if err != nil || at(got, "spec.bogus") != nil {
			t.Errorf("%s: got %v, error %v", name, got, err)
		}
	}
}

func TestDefinitionsShareNoNames(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.mustCreate(definitionText)
	other := y.mustCreate(strings.NewReplacer("widgets", "gadgets").Replace(definitionText)) // of the same kind
	if got := conditions(t, y.latest(other)); !strings.HasPrefix(got, "NamesAccepted=False") {
		t.Errorf("got conditions %s, want a conflict", got)
	}
	_, err := y.create(strings.Replace(definitionText, "name: widgets.example.com", "name: other.example.com", 1), byClient)
	refused(t, err, metav1.StatusReasonInvalid, "metadata.name: Invalid value")
}

func TestDefinitionIsDeletedAfterItsObjects(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	crd := y.mustCreate(definitionText)
	w := y.mustCreate(widgetText)
	if _, err := y.change(w, byClient, func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"x/a"}) }); err != nil {
		t.Fatal(err)
	}
	y.mustCreate(strings.Replace(widgetText, "name: w", "name: free", 1))
	if y.remove(crd, metav1.DeleteOptions{}) {
		t.Error("deleted before its objects")
	}
	left := y.latest(crd)
	if left.GetDeletionTimestamp() == nil || len(left.GetFinalizers()) != 1 || left.GetFinalizers()[0] != apiextensionsv1.CustomResourceCleanupFinalizer || !strings.Contains(conditions(t, left), "Terminating=True") {
		t.Errorf("got %v", left.Object)
	}
	if got := y.latest(object(t, strings.Replace(widgetText, "name: w", "name: free", 1))); got != nil {
		t.Errorf("left %v, want what no finalizer keeps deleted", got)
	}
	_, err := y.create(strings.Replace(widgetText, "name: w", "name: late", 1), byClient)
	refused(t, err, metav1.StatusReasonMethodNotAllowed, "create not allowed while custom resource definition is terminating")
	if _, err := y.change(w, byClient, func(u *unstructured.Unstructured) { u.SetFinalizers(nil) }); err != nil {
		t.Fatal(err)
	}
	if got := y.latest(crd); got != nil {
		t.Errorf("left %v", got.Object)
	}
}
