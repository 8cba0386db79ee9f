// SPDX-License-Identifier: Apache-2.0

package openapi_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestEveryKindIsDocumented asks for all documents as clients do: by the URLs of
// the list, which may be kept for ever, and by others.
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
	_, list := get("/openapi/v3")
	paths, _ := list["paths"].(map[string]any)
	for group, schema := range map[string]string{
		"api/v1": "io.k8s.api.core.v1.Secret", "apis/apps/v1": "io.k8s.api.apps.v1.Deployment",
		"apis/apiextensions.k8s.io/v1": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
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
	if definitions["io.k8s.api.apps.v1.Deployment"] == nil {
		t.Error("/openapi/v2: no Deployment")
	}
}
