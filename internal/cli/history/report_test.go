// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/decisions"
)

// answers are those of the API server of the tests, by path.
func answers(t *testing.T) map[string]string {
	t.Helper()
	return map[string]string{
		"/version":     `{"gitVersion":"v1.36.3"}`,
		decisions.Path: string(encoded(t, same())),
		"/api":         `{"kind":"APIVersions","versions":["v1"]}`,
		"/apis":        `{"kind":"APIGroupList","groups":[{"name":"bootstrap.cluster.x-k8s.io","versions":[{"groupVersion":"bootstrap.cluster.x-k8s.io/v1beta2","version":"v1beta2"}],"preferredVersion":{"groupVersion":"bootstrap.cluster.x-k8s.io/v1beta2","version":"v1beta2"}}]}`,
		"/api/v1":      `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"secrets","kind":"Secret","verbs":["list"]},{"name":"configmaps","kind":"ConfigMap","verbs":["list"]},{"name":"nodes","kind":"Node","verbs":["list"]}]}`,
		"/apis/bootstrap.cluster.x-k8s.io/v1beta2":                `{"kind":"APIResourceList","groupVersion":"bootstrap.cluster.x-k8s.io/v1beta2","resources":[{"name":"kubeadmconfigs","kind":"KubeadmConfig","verbs":["list"]}]}`,
		"/apis/bootstrap.cluster.x-k8s.io/v1beta2/kubeadmconfigs": `{"kind":"KubeadmConfigList","apiVersion":"bootstrap.cluster.x-k8s.io/v1beta2","items":[{"kind":"KubeadmConfig","apiVersion":"bootstrap.cluster.x-k8s.io/v1beta2","metadata":{"name":"a"},"spec":{"files":[{"path":"/a","content":"SECRET"}]}}]}`,
		"/api/v1/secrets":    `{"kind":"SecretList","apiVersion":"v1","items":[{"kind":"Secret","apiVersion":"v1","metadata":{"name":"SECRET"}}]}`,
		"/api/v1/configmaps": `{"kind":"ConfigMapList","apiVersion":"v1","items":[{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"SECRET"}}]}`,
	}
}

func TestReportHasEverythingButSecrets(t *testing.T) {
	t.Parallel()
	all := answers(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if all[r.URL.Path] == "" {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = w.Write([]byte(all[r.URL.Path]))
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "capstan.log"), []byte(strings.Repeat("a line\n", 3)), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &report{now: time.Now(), redactor: decisions.New()}
	if err := r.collect(t.Context(), command.Mgmt{Config: &rest.Config{Host: server.URL}, Dir: dir}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range r.files {
		names = append(names, f.name)
		if bytes.Contains(f.content, []byte("SECRET")) {
			t.Errorf("%s has a secret: %s", f.name, f.content)
		}
	}
	want := []string{"version.json", decisionsFile, "objects/kubeadmconfigs.bootstrap.cluster.x-k8s.io.json", "plane.log"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if missing := strings.Join(r.missing, "\n"); strings.Count(missing, "\n") != 1 || !strings.Contains(missing, "metrics.txt: ") || !strings.Contains(missing, "objects/nodes.json: ") {
		t.Errorf("missing: %s", missing)
	}
	archive, err := r.archive()
	if err != nil {
		t.Fatal(err)
	}
	if read, err := readFile(bytes.NewReader(archive)); len(read) != 2 || err != nil {
		t.Errorf("replay reads %d decisions (%v)", len(read), err)
	}
}

func TestReportReplacesFileOnlyByForce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name, target := filepath.Join(dir, "r"), filepath.Join(dir, "target")
	if err := os.WriteFile(target, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
	if err := write(name, []byte("new"), false); !errors.Is(err, os.ErrExist) || !strings.Contains(err.Error(), "--force") {
		t.Errorf("error %v", err)
	}
	env, _ := environment()
	if err := runReport(t.Context(), env, &reportOptions{}, name); err == nil || !strings.Contains(err.Error(), "exists: choose another name, or replace it with --force") {
		t.Errorf("error %v", err)
	}
	if err := write(name, []byte("new"), true); err != nil {
		t.Fatal(err)
	}
	if err := write(filepath.Join(dir, "first"), []byte("new"), false); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"r": "new", "first": "new", "target": "old"} {
		content, err := os.ReadFile(filepath.Join(dir, file))
		info, statErr := os.Lstat(filepath.Join(dir, file))
		if err := errors.Join(err, statErr); err != nil {
			t.Fatal(err)
		}
		if string(content) != want || want == "new" && info.Mode() != 0o600 {
			t.Errorf("%s has %q, mode %v", file, content, info.Mode())
		}
	}
}

func TestTailReadsEndOfFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(name, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	for most, want := range map[int64]string{4: "6789", 10: "0123456789", 20: "0123456789"} {
		if got, err := tail(name, most); string(got) != want || err != nil {
			t.Errorf("%d bytes: %q (%v), want %q", most, got, err, want)
		}
	}
}
