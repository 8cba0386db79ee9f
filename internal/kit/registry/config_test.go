// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"encoding/pem"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// written writes a file of registries and the files next to it.
func written(t *testing.T, text string, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "registries.yaml")
	files["registries.yaml"] = []byte(text)
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

func TestARegistryIsTrustedByTheAuthorityOfTheFile(t *testing.T) {
	t.Parallel()
	f := unstarted("", nil)
	f.Config.ErrorLog = log.New(io.Discard, "", 0) // it logs clients that do not trust it
	f.StartTLS()
	t.Cleanup(f.Close)
	const image = "example.com/org/a:v1"
	asked := Options{Transport: elsewhere(f)}
	if err := pull(t, image, asked); err == nil || !strings.Contains(err.Error(), "certificate signed by unknown authority") {
		t.Errorf("without: got %v", err)
	}
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw})
	file := written(t, "registries: {example.com: {caFile: ca.pem}, '"+f.host()+"': {caFile: ca.pem}}", map[string][]byte{"ca.pem": authority})
	o, err := asked.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, trusted := range []string{image, f.host() + "/org/a:v1"} {
		if err := pull(t, trusted, o); err != nil {
			t.Errorf("%s: %v", trusted, err)
		}
	}
	if err := pull(t, "other.example.com/org/a:v1", o); err == nil || !strings.Contains(err.Error(), "certificate signed by unknown authority") {
		t.Errorf("another registry: got %v", err)
	}
}

func TestMirrorsOfTheFileAreAsked(t *testing.T) {
	t.Parallel()
	first, second := newFake(t, "", nil), newFake(t, "", nil)
	first.status = 404
	o, err := Options{Mirrors: map[string][]string{"docker.io": {first.URL}}}.Read(written(t, "registries: {docker.io: {mirrors: ['"+second.URL+"/hub']}}", map[string][]byte{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := pull(t, "busybox", o); err != nil {
		t.Error(err)
	}
	if asked := first.requests(); !slices.Contains(asked, "GET /v2/library/busybox/manifests/latest") {
		t.Errorf("the one that was given first was asked %q", asked)
	}
	if asked := second.requests(); !slices.Contains(asked, "GET /v2/hub/library/busybox/manifests/latest") {
		t.Errorf("the one of the file was asked %q", asked)
	}
}

func TestAFileThatIsWrongIsNamed(t *testing.T) {
	t.Parallel()
	if _, err := (Options{}).Read(filepath.Join(t.TempDir(), "registries.yaml")); err != nil {
		t.Errorf("none at all: %v", err)
	}
	for name, tc := range map[string]struct{ text, want string }{
		"an unknown field": {"registries: {docker.io: {mirror: [x]}}", `unknown field "mirror"`},
		"no YAML":          {"registries: [", "yaml: "},
		"no such file":     {"registries: {a.example.com: {caFile: none.pem}}", "registries[a.example.com].caFile: open "},
		"no certificate":   {"registries: {a.example.com: {caFile: empty.pem}}", "holds no certificate in PEM"},
	} {
		file := written(t, tc.text, map[string][]byte{"empty.pem": nil})
		if _, err := (Options{}).Read(file); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: got %v, want %s", name, err, tc.want)
		}
	}
}
