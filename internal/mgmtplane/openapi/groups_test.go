// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	informers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/kube-openapi/pkg/handler3"

	"github.com/capstan-dev/capstan/internal/builder"
)

// TestDocumentsAreCachedByTheirHash: a client that has the document of a hash never
// requests it again, so only the present one may be cached.
func TestDocumentsAreCachedByTheirHash(t *testing.T) {
	t.Parallel()
	to := mux.NewPathRecorderMux("test")
	groups{
		hashes:    func() map[string]string { return map[string]string{"apis/a/v1": "NEW"} },
		documents: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.URL.String())) }),
	}.serve(to)
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		to.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w
	}
	var list map[string]map[string]map[string]string
	if err := json.Unmarshal(get(root).Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]map[string]map[string]string{"paths": {"apis/a/v1": {"serverRelativeURL": "/openapi/v3/apis/a/v1?hash=NEW"}}}, list); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for path, want := range map[string]struct {
		code                  int
		body, location, cache string
	}{
		"/openapi/v3/apis/a/v1?hash=NEW": {code: http.StatusOK, body: "/openapi/v3/apis/a/v1", cache: "public, immutable"},
		"/openapi/v3/apis/a/v1":          {code: http.StatusOK, body: "/openapi/v3/apis/a/v1"},
		"/openapi/v3/apis/a/v1?hash=OLD": {code: http.StatusMovedPermanently, location: "/openapi/v3/apis/a/v1?hash=NEW"},
		"/openapi/v3/apis/b/v1?hash=NEW": {code: http.StatusNotFound},
		"/openapi/v3/":                   {code: http.StatusNotFound},
	} {
		w := get(path)
		h := w.Result().Header
		if w.Code != want.code || h.Get("Location") != want.location || h.Get("Cache-Control") != want.cache || (h.Get("Expires") != "") != (want.cache != "") {
			t.Errorf("%s: answered %d with %v", path, w.Code, h)
		}
		if want.body != "" && w.Body.String() != want.body {
			t.Errorf("%s: forwarded as %s, want %s", path, w.Body, want.body)
		}
	}
}

const thing = `
metadata: {name: things.example.com, uid: u, generation: %G, annotations: {a: b}}
spec:
  group: example.com
  names: {kind: Thing, plural: things}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, description: '%D'}}}
  - {name: v0, served: false, storage: false, schema: {openAPIV3Schema: {type: object}}}
status: {conditions: [{type: Established, status: '%E'}]}
`

// TestDocumentFollowsItsDefinition: the hash changes with the generation, only served
// versions of established definitions have a document, and it is written once.
func TestDocumentFollowsItsDefinition(t *testing.T) {
	t.Parallel()
	parse := func(generation, description, established string) *apiextensionsv1.CustomResourceDefinition {
		return builder.Parse[apiextensionsv1.CustomResourceDefinition](t, strings.NewReplacer("%G", generation, "%D", description, "%E", established).Replace(thing))
	}
	client := fake.NewClientset(parse("1", "first", "True"))
	d := &definitions{build: "build", client: client, informer: informers.NewCustomResourceDefinitionInformer(client, 0, nil), written: handler3.NewOpenAPIService(), hashes: map[string]string{}}
	put := func(crd *apiextensionsv1.CustomResourceDefinition) {
		t.Helper()
		small, err := slim(crd)
		if err != nil {
			t.Fatal(err)
		}
		if c := small.(*apiextensionsv1.CustomResourceDefinition); c.Spec.Versions[0].Schema != nil || c.Annotations != nil {
			t.Errorf("it still has %+v", c)
		}
		if err := d.informer.GetStore().Add(small); err != nil {
			t.Fatal(err)
		}
	}
	document := func() string {
		w := httptest.NewRecorder()
		d.document(w, httptest.NewRequest(http.MethodGet, root+"/apis/example.com/v1", nil), "apis/example.com/v1")
		return w.Body.String()
	}
	put(parse("1", "first", "False"))
	if all := d.defined(); len(all) > 0 {
		t.Errorf("before it is established: %v", all)
	}
	put(parse("1", "first", "True"))
	before := d.defined()
	if len(before) != 1 || before["apis/example.com/v1"] == "" || !strings.Contains(document(), "first") {
		t.Errorf("got %v and %.80q", before, document())
	}
	reads := len(client.Actions())
	if document(); len(client.Actions()) != reads {
		t.Error("the document of the same definition is written again")
	}
	changed := parse("2", "second", "True")
	if _, err := client.ApiextensionsV1().CustomResourceDefinitions().Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	put(changed)
	if after := d.defined(); after["apis/example.com/v1"] == before["apis/example.com/v1"] || !strings.Contains(document(), "second") {
		t.Errorf("after a change: %v and %.80q", after, document())
	}
	if obj, err := slim("other"); obj != "other" || err != nil {
		t.Errorf("an unrelated object: %v, %v", obj, err)
	}
}
