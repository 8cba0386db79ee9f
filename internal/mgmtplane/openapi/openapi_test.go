// SPDX-License-Identifier: Apache-2.0

package openapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/handler3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestEveryKindIsDocumented requests all documents as clients do: by the URLs of
// the list, which may be cached forever, and by others.
func TestEveryKindIsDocumented(t *testing.T) {
	env := testenv.Start(t)
	client, err := rest.HTTPClientFor(env.Config)
	if err != nil {
		t.Fatal(err)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	get := func(path string) (*http.Response, map[string]any) {
		t.Helper()
		res, err := client.Get(strings.TrimSuffix(env.Config.Host, "/") + path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		doc := map[string]any{}
		if res.StatusCode == http.StatusOK {
			if err := json.Unmarshal(body, &doc); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
		}
		return res, doc
	}
	// The kinds of a definition are documented a moment after it.
	var paths map[string]any
	testenv.Eventually(t, func() error {
		_, list := get("/openapi/v3")
		paths, _ = list["paths"].(map[string]any)
		for _, group := range []string{"api/v1", "apis/cluster.x-k8s.io/v1beta1", "apis/cluster.x-k8s.io/v1beta2"} {
			if paths[group] == nil {
				return fmt.Errorf("%s is not in the list", group)
			}
		}
		return nil
	})
	for group, schema := range map[string]string{
		"api/v1": "io.k8s.api.core.v1.Secret", "apis/apps/v1": "io.k8s.api.apps.v1.Deployment",
		"apis/apiextensions.k8s.io/v1":  "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
		"apis/cluster.x-k8s.io/v1beta2": "io.x-k8s.cluster.v1beta2.Machine", "apis/cluster.x-k8s.io/v1beta1": "io.x-k8s.cluster.v1beta1.Machine",
	} {
		entry, _ := paths[group].(map[string]any)
		url, _ := entry["serverRelativeURL"].(string)
		res, doc := get(url)
		if res.StatusCode != http.StatusOK || !strings.Contains(res.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: answered %s with Cache-Control %q", url, res.Status, res.Header.Get("Cache-Control"))
		}
		components, _ := doc["components"].(map[string]any)
		schemas, _ := components["schemas"].(map[string]any)
		if schemas[schema] == nil {
			t.Errorf("%s: schema %s is missing", url, schema)
		}
		if res, _ := get("/openapi/v3/" + group + "?hash=OLD"); res.StatusCode != http.StatusMovedPermanently || res.Header.Get("Location") != url {
			t.Errorf("%s of another build: answered %s, Location %q, want %q", group, res.Status, res.Header.Get("Location"), url)
		}
		if res, _ := get("/openapi/v3/" + group); res.StatusCode != http.StatusOK || res.Header.Get("Cache-Control") != "no-cache, private" {
			t.Errorf("%s without a hash: answered %s with Cache-Control %q", group, res.Status, res.Header.Get("Cache-Control"))
		}
	}
	_, all := get("/openapi/v2")
	definitions, _ := all["definitions"].(map[string]any)
	for _, schema := range []string{"io.k8s.api.apps.v1.Deployment", "io.x-k8s.cluster.v1beta2.Machine"} {
		if definitions[schema] == nil {
			t.Errorf("/openapi/v2: no %s", schema)
		}
	}
	if res, _ := get("/openapi/v3/apis/unknown.io/v1"); res.StatusCode != http.StatusNotFound {
		t.Errorf("a group that is not there: answered %s", res.Status)
	}
}

// TestTheDocumentOfADefinitionFollowsIt installs a kind, changes it and removes it.
func TestTheDocumentOfADefinitionFollowsIt(t *testing.T) {
	env := testenv.Start(t)
	clientset, err := kubernetes.NewForConfig(env.Config)
	if err != nil {
		t.Fatal(err)
	}
	server := clientset.RESTClient()
	const group = "apis/documented.example.com/v1"
	tells := func(text string, want bool) {
		t.Helper()
		testenv.Eventually(t, func() error {
			list, err := server.Get().AbsPath("/openapi/v3").DoRaw(t.Context())
			if err != nil {
				return err
			}
			var all handler3.OpenAPIV3Discovery
			if err := json.Unmarshal(list, &all); err != nil {
				return err
			}
			document := []byte{}
			if entry, ok := all.Paths[group]; ok {
				if document, err = server.Get().RequestURI(entry.ServerRelativeURL).DoRaw(t.Context()); err != nil {
					return err
				}
			}
			if strings.Contains(string(document), text) != want {
				return fmt.Errorf("%q is in the document: %t, want %t", text, !want, want)
			}
			return nil
		})
	}
	crd := testenv.Kind("documented.example.com", "Thing")
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = "What it was at first."
	env.Define(t, crd)
	tells("What it was at first.", true)
	change := client.RawPatch(types.JSONPatchType, []byte(`[{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/description", "value": "What became of it."}]`))
	if err := env.Client.Patch(t.Context(), crd, change); err != nil {
		t.Fatal(err)
	}
	tells("What became of it.", true)
	if err := env.Client.Delete(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	tells("What became of it.", false)
}
