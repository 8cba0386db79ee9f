// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/clusterctl/config"
)

// push makes a server the registry of an artifact org/aws:tag with files.
func push(t *testing.T, s *server, tag string, files map[string]string) {
	t.Helper()
	s.text("/v2/", "{}")
	m := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest}
	for name, content := range files {
		d := digest.FromString(content)
		s.text("/v2/org/aws/blobs/"+d.String(), content)
		m.Layers = append(m.Layers, ocispec.Descriptor{MediaType: "application/yaml", Digest: d, Size: int64(len(content)), Annotations: map[string]string{ocispec.AnnotationTitle: "out/" + name}})
	}
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	s.on("/v2/org/aws/manifests/"+tag, withHeader(string(raw), "Content-Type", ocispec.MediaTypeImageManifest))
}

// ociURL is that of a release in the registry of a server.
func ociURL(s *server, version string) string {
	return strings.Replace(s.URL, "http://", "oci://", 1) + "/org/aws:" + version
}

func TestArtifactsOfARegistry(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	push(t, s, "v1.1.0", map[string]string{"metadata.yaml": metadataFor("1.1 v1beta2")})
	s.on("/v2/org/aws/tags/list", withHeader(`{"name":"org/aws","tags":["latest","v1.1.0","sha256-abc.sig"]}`, "Link", `</v2/org/aws/tags/list?last=v1.1.0>; rel="next"`))
	s.text("/v2/org/aws/tags/list?last=v1.1.0", `{"tags":["v1.0.0"]}`)
	r := open1(t, ociURL(s, "latest"), at(s))
	if r.DefaultVersion() != "latest" || r.ComponentsFile() != "infrastructure-components.yaml" {
		t.Errorf("version %s, file %s", r.DefaultVersion(), r.ComponentsFile())
	}
	if got, err := r.Versions(t.Context()); err != nil || !cmp.Equal(got, []string{"v1.0.0", "v1.1.0"}) {
		t.Errorf("versions %v, %v", got, err)
	}
	if got, err := Resolve(t.Context(), r, ""); err != nil || got != "v1.1.0" {
		t.Errorf("version %s, %v", got, err)
	}
	_, err := r.File(t.Context(), "v1.1.0", "none.yaml")
	wantError(t, err, "release v1.1.0 of "+strings.TrimSuffix(ociURL(s, ""), ":")+" has no file none.yaml: it has metadata.yaml")
	_, err2 := r.File(t.Context(), "v9.0.0", "metadata.yaml")
	wantError(t, err2, "has no release v9.0.0")
	for _, err := range []error{err, err2} {
		if !errors.As(err, new(*NotFoundError)) {
			t.Errorf("error %v, want a NotFoundError", err)
		}
	}
}

func TestMirrorsOfTheFileHaveArtifacts(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	push(t, s, "v1.0.0", map[string]string{"metadata.yaml": "from the mirror"})
	for path, route := range maps.Clone(s.routes) {
		s.on(strings.Replace(path, "/v2/org/", "/v2/mirrored/org/", 1), func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "" {
				t.Error("the credentials of the registry go to its mirror")
			}
			route(w, r)
		})
	}
	o := at(s, "OCI_USERNAME", "me", "OCI_PASSWORD", "secret")
	o.Registries = filepath.Join(t.TempDir(), "registries.yaml")
	writeFile(t, o.Registries, "registries: {registry.example.com: {mirrors: ['"+s.URL+"/mirrored']}}")
	got, err := open1(t, "oci://registry.example.com/org/aws:v1.0.0", o).File(t.Context(), "v1.0.0", "metadata.yaml")
	if err != nil || string(got) != "from the mirror" {
		t.Errorf("got %q, %v", got, err)
	}
	writeFile(t, o.Registries, "registries: [")
	if _, err := Open(t.Context(), aws("oci://registry.example.com/org/aws:v1.0.0"), o); err == nil || !strings.Contains(err.Error(), o.Registries) {
		t.Errorf("of a file that is wrong: got %v", err)
	}
}

func TestWhatARegistryHasWrong(t *testing.T) {
	t.Parallel()
	right := digest.FromString("right")
	layers := func(l ocispec.Descriptor) string {
		l.Annotations = map[string]string{ocispec.AnnotationTitle: "a.yaml"}
		raw, err := json.Marshal(ocispec.Manifest{Layers: []ocispec.Descriptor{l}})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	image := func(l ocispec.Descriptor) http.HandlerFunc {
		return withHeader(layers(l), "Content-Type", ocispec.MediaTypeImageManifest)
	}
	good := ocispec.Descriptor{Digest: right, Size: 5}
	for name, tc := range map[string]struct {
		manifest, blob http.HandlerFunc
		want           string
	}{
		"nothing":             {image(good), say("right"), ""},
		"once":                {inTurn(answerWith(503), image(good)), inTurn(cutOff, say("right")), ""},
		"another content":     {image(good), say("wrong"), "error verifying sha256 checksum"},
		"less content":        {image(good), say("r"), "error verifying sha256 checksum"},
		"another size":        {image(ocispec.Descriptor{Digest: right, Size: 6}), say("right"), "size mismatch: 5 bytes, the manifest has 6"},
		"a large layer":       {image(ocispec.Descriptor{Digest: right, Size: maxFile + 1}), say("right"), "is larger than 32 MiB"},
		"an index":            {withHeader("{}", "Content-Type", ocispec.MediaTypeImageIndex), nil, "is no artifact, but application/vnd.oci.image.index.v1+json"},
		"an endless manifest": {endless, nil, "the answer is larger than 8 MiB"},
		"an outage":           {answerWith(503), nil, "the server answers 503 Service Unavailable"},
		"a secret":            {answerWith(403), nil, "403 Forbidden: set OCI_USERNAME and OCI_PASSWORD, or OCI_ACCESS_TOKEN"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.text("/v2/", "{}")
			s.on("/v2/org/aws/manifests/v1.0.0", tc.manifest)
			s.on("/v2/org/aws/blobs/"+right.String(), tc.blob)
			got, err := open1(t, ociURL(s, "v1.0.0"), at(s)).File(t.Context(), "v1.0.0", "a.yaml")
			if tc.want != "" {
				wantError(t, err, tc.want)
			} else if err != nil || string(got) != "right" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

func TestARegistryGetsATokenFromWhereItSays(t *testing.T) {
	t.Parallel()
	s, elsewhere := newServer(t), newServer(t)
	const content = "private"
	d := digest.FromString(content)
	guard := func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer token" {
				answerWith(401, "WWW-Authenticate", `Bearer realm="`+s.URL+`/token",service="x"`)(w, r)
				return
			}
			next(w, r)
		}
	}
	push(t, s, "v1.0.0", map[string]string{"a.yaml": content})
	s.on("/v2/", guard(say("{}")))
	s.on("/v2/org/aws/manifests/v1.0.0", guard(s.routes["/v2/org/aws/manifests/v1.0.0"]))
	s.on("/v2/org/aws/blobs/"+d.String(), guard(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+"/blob", http.StatusTemporaryRedirect)
	}))
	elsewhere.on("/blob", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the token goes to another server")
		}
		_, _ = w.Write([]byte(content))
	})
	s.on("/token?scope=repository%3Aorg%2Faws%3Apull&service=x", func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user+":"+password != "me:secret" {
			answerWith(401)(w, r)
			return
		}
		_, _ = fmt.Fprint(w, `{"token":"token"}`)
	})
	got, err := open1(t, ociURL(s, "v1.0.0"), at(s, "OCI_USERNAME", "me", "OCI_PASSWORD", "secret")).File(t.Context(), "v1.0.0", "a.yaml")
	if err != nil || string(got) != content {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := open1(t, ociURL(s, "v1.0.0"), at(s, "OCI_ACCESS_TOKEN", "token")).File(t.Context(), "v1.0.0", "a.yaml"); err != nil || string(got) != content {
		t.Errorf("with an access token: %q, %v", got, err)
	}
	_, err = open1(t, ociURL(s, "v1.0.0"), at(s, "OCI_USERNAME", "me", "OCI_PASSWORD", "wrong-one")).File(t.Context(), "v1.0.0", "a.yaml")
	wantError(t, err, "401 Unauthorized: set OCI_USERNAME")
	if err != nil && strings.Contains(err.Error(), "wrong-one") {
		t.Errorf("the password is in %v", err)
	}
}

func TestURLsOfRegistries(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"oci://ghcr.io/org/aws:v1.2.3":              "v1.2.3 infrastructure-components.yaml",
		"oci://ghcr.io/org/aws:latest/c.yaml":       "latest c.yaml",
		"oci://ghcr.io:5000/org/aws:v1.2.3/c.yaml":  "v1.2.3 c.yaml",
		"oci://ghcr.io/org/aws":                     "use oci://HOST/REPOSITORY:VERSION/FILE",
		"oci://ghcr.io/org/aws:v1.2.3/d/c.yaml":     "use oci://HOST/REPOSITORY:VERSION/FILE",
		"oci://ghcr.io/org/aws:v1":                  `"v1" is no semantic version`,
		"oci://ghcr.io/ORG/aws:v1.2.3":              "invalid repository",
		"oci://me:password@ghcr.io/org/aws:v1.2.3":  "give the user in OCI_USERNAME",
		"oci://ghcr.io/org/aws@sha256:abc:v1.2.3/c": "invalid",
	} {
		r, err := Open(t.Context(), aws(url), Options{})
		if strings.HasPrefix(want, "v1.2.3 ") || strings.HasPrefix(want, "latest ") {
			if err != nil || r.DefaultVersion()+" "+r.ComponentsFile() != want {
				t.Errorf("%s: %v, %v", url, r, err)
			}
			continue
		}
		if err == nil || strings.Contains(err.Error(), "password@") {
			t.Errorf("%s: error %v", url, err)
		}
		if !strings.Contains(fmt.Sprint(err), want) && want != "invalid" {
			t.Errorf("%s: error %v, want one with %q", url, err, want)
		}
	}
	core := config.Provider{Name: config.ClusterAPI, Type: clusterctlv1.CoreProviderType, URL: "oci://ghcr.io/org/core:v1.2.3"}
	if r, err := Open(t.Context(), core, Options{}); err != nil || r.ComponentsFile() != "core-components.yaml" {
		t.Errorf("%v, %v", r, err)
	}
}

// TestRefreshTokenStaysAtItsServer redirects the request that contains it.
func TestRefreshTokenStaysAtItsServer(t *testing.T) {
	t.Parallel()
	s, elsewhere := newServer(t), newServer(t)
	s.on("/v2/", answerWith(401, "WWW-Authenticate", `Bearer realm="`+s.URL+`/token",service="x"`))
	s.on("/token", func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); !strings.Contains(string(body), "refresh_token=secret") {
			t.Errorf("the token server gets %q", body)
		}
		http.Redirect(w, r, elsewhere.URL+"/token", http.StatusTemporaryRedirect)
	})
	_, err := open1(t, ociURL(s, "v1.0.0"), at(s, "OCI_REFRESH_TOKEN", "secret")).File(t.Context(), "v1.0.0", "a.yaml")
	wantError(t, err, "request for a token is redirected to "+strings.TrimPrefix(elsewhere.URL, "http://"))
	if asked := elsewhere.takeAsked(); len(asked) != 0 {
		t.Errorf("another server is asked for %q", asked)
	}
}
