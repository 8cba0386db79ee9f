// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi3"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver"
)

// send sends a request that is built from strings.
func send(t *testing.T, cfg *rest.Config, method, path, contentType, accept, body string) (*http.Response, []byte) {
	t.Helper()
	hc, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, cfg.Host+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Accept", accept)
	resp, err := hc.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, got
}

func TestRequestsThatMakeNoSenseAreAnsweredWithAStatus(t *testing.T) {
	t.Parallel()
	const (
		configMaps = "/api/v1/namespaces/default/configmaps"
		one        = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`
		asJSON     = "application/json"
	)
	tests := map[string]struct {
		method, path, contentType, accept, body string
		code                                    int
		message                                 string
	}{
		"a resource that is not there":   {"GET", "/api/v1/things", asJSON, "", "", 404, "could not find the requested resource"},
		"an object that is not there":    {"GET", configMaps + "/nope", asJSON, "", "", 404, `configmaps "nope" not found`},
		"a subresource not there":        {"GET", configMaps + "/a/status", asJSON, "", "", 404, "could not find"},
		"a namespace for a node":         {"GET", "/api/v1/namespaces/default/nodes", asJSON, "", "", 404, "could not find"},
		"no namespace for a pod":         {"POST", "/api/v1/pods", asJSON, "", one, 400, "empty namespace"},
		"another namespace":              {"POST", configMaps, asJSON, "", strings.Replace(one, `"a"`, `"a","namespace":"b"`, 1), 400, "does not match the namespace"},
		"aliases of a long text":         {"POST", configMaps, asYAML, "", "{a: &a " + strings.Repeat("x", 100<<10) + ", b: [" + strings.Repeat("*a,", 1000) + "]}", 400, "aliases that make too much"},
		"a time that is none":            {"PATCH", "/api/v1/namespaces/default/status?fieldManager=x", "application/apply-patch+yaml", "", `{"apiVersion":"v1","kind":"Namespace","status":{"conditions":[{"type":"A","status":"True","lastTransitionTime":"soon"}]}}`, 400, "cannot be decoded"},
		"such aliases in an intent":      {"PATCH", configMaps + "/a?fieldManager=x", "application/apply-patch+yaml", "", "{a: &a " + strings.Repeat("x", 100<<10) + ", b: [" + strings.Repeat("*a,", 1000) + "]}", 400, "aliases that make too much"},
		"no JSON":                        {"POST", configMaps, asJSON, "", "{", 400, "unrecognized"},
		"another kind":                   {"POST", configMaps, asJSON, "", strings.Replace(one, "ConfigMap", "Secret", 1), 400, "unknown conversion"},
		"no name":                        {"POST", configMaps, asJSON, "", `{"apiVersion":"v1","kind":"ConfigMap"}`, 422, "name or generateName is required"},
		"a name that cannot be":          {"POST", configMaps, asJSON, "", strings.Replace(one, `"a"`, `"A_"`, 1), 422, "metadata.name"},
		"a version at creation":          {"POST", configMaps, asJSON, "", strings.Replace(one, `"a"`, `"a","resourceVersion":"1"`, 1), 500, "resourceVersion should not be set"},
		"an unknown field, strictly":     {"POST", configMaps + "?fieldValidation=Strict", asJSON, "", strings.Replace(one, `"kind"`, `"bogus":1,"kind"`, 1), 400, `unknown field "bogus"`},
		"an unknown field validation":    {"POST", configMaps + "?fieldValidation=Maybe", asJSON, "", one, 422, "fieldValidation"},
		"an unknown dry run":             {"POST", configMaps + "?dryRun=Some", asJSON, "", one, 422, "dryRun"},
		"a body in CBOR":                 {"POST", configMaps, "application/cbor", "", one, 415, "unknown format"},
		"a body without end":             {"POST", configMaps, asJSON, "", `{"data":{"a":"` + strings.Repeat("x", 4<<20), 413, "limit is 3145728"},
		"an answer in XML":               {"GET", configMaps, asJSON, "application/xml", "", 406, "406: Not Acceptable"},
		"a patch of no kind":             {"PATCH", configMaps + "/kube", asJSON, "", "{}", 415, "Unsupported Media Type"},
		"a patch of nothing":             {"PATCH", configMaps + "/nope", "application/merge-patch+json", "", "{}", 404, `"nope" not found`},
		"an apply without field manager": {"PATCH", configMaps + "/a", "application/apply-patch+yaml", "", one, 422, "fieldManager"},
		"an apply to another":            {"PATCH", configMaps + "/b?fieldManager=x", "application/apply-patch+yaml", "", one, 400, "does not match the name on the URL"},
		"a method for a list":            {"PUT", configMaps, asJSON, "", one, 405, "does not allow this method"},
		"a watch from nowhere":           {"GET", configMaps + "?watch=1&resourceVersion=x", asJSON, "", "", 500, "resourceVersion"},
		"a watch from the future":        {"GET", configMaps + "?resourceVersion=999999", asJSON, "", "", 504, "Too large resource version"},
		"a broken selector":              {"GET", configMaps + "?labelSelector=a%3D%3D%3D", asJSON, "", "", 400, "unable to parse requirement"},
		"a broken continuation":          {"GET", configMaps + "?continue=x", asJSON, "", "", 400, "continue"},
		"a field it cannot select by":    {"GET", configMaps + "?fieldSelector=data.a%3Db", asJSON, "", "", 400, "not a known field selector"},
		"a forward without an upgrade":   {"POST", "/api/v1/namespaces/default/pods/p/portforward", asJSON, "", "", 400, "Upgrade request required"},
	}
	c := start(t, func(o *apiserver.Options) { o.PortForward = echo })
	if err := c.Store().Add(pod("p", nil)); err != nil {
		t.Fatal(err)
	}
	admin := c.admin(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			resp, body := send(t, admin, tc.method, tc.path, tc.contentType, tc.accept, tc.body)
			var status metav1.Status
			if err := json.Unmarshal(body, &status); err != nil {
				t.Fatalf("%s: %s", resp.Status, body)
			}
			if resp.StatusCode != tc.code || int(status.Code) != tc.code || status.Kind != "Status" || status.Status != metav1.StatusFailure || !strings.Contains(status.Message, tc.message) {
				t.Errorf("%s %+v, want %d %q", resp.Status, status, tc.code, tc.message)
			}
		})
	}
}

func TestUnknownFieldsAreDroppedWithAWarning(t *testing.T) {
	t.Parallel()
	const body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nbogus: 1\n"
	resp, got := send(t, start(t).admin(t), "POST", "/api/v1/namespaces/default/configmaps", "application/yaml", "", body)
	if resp.StatusCode != http.StatusCreated || bytes.Contains(got, []byte("bogus")) {
		t.Errorf("%s %s", resp.Status, got)
	}
	if w := resp.Header.Get("Warning"); w != `299 - "unknown field \"bogus\""` {
		t.Errorf("warning %s", w)
	}
}

func TestASecretKeepsWhatWasWrittenAsText(t *testing.T) {
	t.Parallel()
	const body = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"stringData":{"k":"v"}}`
	_, got := send(t, start(t).admin(t), "POST", "/api/v1/namespaces/default/secrets", "application/json", "", body)
	if !bytes.Contains(got, []byte(`"data":{"k":"dg=="}`)) || bytes.Contains(got, []byte("stringData")) || !bytes.Contains(got, []byte(`"type":"Opaque"`)) {
		t.Errorf("%s", got)
	}
}

func TestAPanicEndsOneRequestAlone(t *testing.T) {
	t.Parallel()
	c := start(t, func(o *apiserver.Options) {
		calls := 0
		o.Version = func() string {
			if calls++; calls == 1 {
				panic("no version")
			}
			return "v1.34.2"
		}
	})
	if got := answers(t, c.anonymous(), "/version"); got != http.StatusInternalServerError {
		t.Errorf("answers %d, want 500", got)
	}
	if got := answers(t, c.anonymous(), "/version"); got != http.StatusOK {
		t.Errorf("afterwards %d, want 200", got)
	}
}

func TestClientsDiscoverWhatIsServed(t *testing.T) {
	t.Parallel()
	dc, err := discovery.NewDiscoveryClientForConfig(start(t).admin(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, client := range map[string]discovery.DiscoveryInterface{"in one document": dc, "in many": dc.WithLegacy()} {
		_, lists, err := client.ServerGroupsAndResources()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		found := map[string]bool{}
		for _, l := range lists {
			for _, r := range l.APIResources {
				found[l.GroupVersion+" "+r.Name] = true
			}
		}
		for _, want := range []string{"v1 nodes", "v1 nodes/status", "apps/v1 deployments/scale", "v1 pods/portforward", "policy/v1 poddisruptionbudgets"} {
			if !found[want] {
				t.Errorf("%s: no %s", name, want)
			}
		}
	}
	v, err := dc.ServerVersion()
	if err != nil || v.GitVersion != "v1.34.2" || v.Minor != "34" {
		t.Errorf("version %+v, error %v", v, err)
	}
	root := openapi3.NewRoot(dc.OpenAPIV3())
	gvs, err := root.GroupVersions()
	if err != nil || len(gvs) == 0 {
		t.Fatalf("documents %v, error %v", gvs, err)
	}
	for _, gv := range gvs {
		doc, err := root.GVSpec(gv)
		if err != nil {
			t.Fatalf("%s: %v", gv, err)
		}
		if len(doc.Paths.Paths) == 0 || len(doc.Components.Schemas) == 0 {
			t.Errorf("%s describes nothing", gv)
		}
		for name, s := range doc.Components.Schemas {
			if s == nil {
				t.Errorf("%s: %s is empty", gv, name)
			}
		}
	}
}

func TestAllThatIsServedIsDescribedInOneDocument(t *testing.T) {
	t.Parallel()
	admin := start(t).admin(t)
	call(t, admin, http.StatusCreated, "POST", definitionsPath, asYAML, widgets)
	dc, err := discovery.NewDiscoveryClientForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := dc.OpenAPISchema() // in protobuf
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, d := range doc.Definitions.AdditionalProperties {
		found[d.Name] = true
		for _, p := range d.Value.GetProperties().GetAdditionalProperties() {
			if ref := p.Value.XRef; ref != "" && !strings.HasPrefix(ref, "#/definitions/") {
				t.Errorf("%s.%s refers to %s", d.Name, p.Name, ref)
			}
		}
	}
	for _, want := range []string{"io.k8s.api.apps.v1.Deployment", "com.example.v1.Widget", "com.example.v1alpha1.Widget"} {
		if !found[want] {
			t.Errorf("no definition %s", want)
		}
	}
	resp, _ := send(t, admin, "GET", "/openapi/v2", "", "application/json", "")
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Etag") == "" {
		t.Errorf("as JSON %s, tag %s", resp.Status, resp.Header.Get("Etag"))
	}
}

func TestRequestsAndObjectsAreCounted(t *testing.T) {
	t.Parallel()
	admin := start(t).admin(t)
	call(t, admin, http.StatusNotFound, "GET", "/api/v1/namespaces/default/configmaps/nope", "", "")
	for _, invented := range []string{"xa", "xb"} {
		call(t, admin, http.StatusNotFound, "GET", "/api/v1/namespaces/default/configmaps/a/"+invented, "", "")
		call(t, admin, http.StatusMethodNotAllowed, invented, "/version", "", "")
	}
	_, got := send(t, admin, "GET", "/metrics", "", "text/plain", "")
	if strings.Contains(strings.ToLower(string(got)), `"xa"`) {
		t.Errorf("a name that a client invented is in\n%s", got)
	}
	for _, want := range []string{
		`apiserver_request_total{code="404",component="apiserver",dry_run="",group="",resource="",scope="",subresource="",verb="GET",version=""} 2`,
		`apiserver_request_total{code="405",component="apiserver",dry_run="",group="",resource="",scope="",subresource="",verb="OTHER",version=""} 2`,
		`apiserver_request_total{code="404",component="apiserver",dry_run="",group="",resource="configmaps",scope="",subresource="",verb="GET",version="v1"} 1`,
		`apiserver_storage_objects{resource="namespaces"} 4`, `kubernetes_build_info{git_version="v1.34.2",major="1",minor="34"} 1`,
	} {
		if !strings.Contains(string(got), want+"\n") {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}
