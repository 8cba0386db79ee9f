// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/clusterctl/config"
)

// metadataFor is a metadata.yaml with a contract for each series: "1.2 v1beta1".
func metadataFor(series ...string) string {
	text := "apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\nreleaseSeries:\n"
	for _, s := range series {
		var major, minor int
		var keeps string
		if _, err := fmt.Sscanf(s, "%d.%d %s", &major, &minor, &keeps); err != nil {
			panic(err)
		}
		text += fmt.Sprintf("- {major: %d, minor: %d, contract: %s}\n", major, minor, keeps)
	}
	return text
}

// repositoryOf is a local repository of the provider aws with files
// "v1.0.0/metadata.yaml".
func repositoryOf(t *testing.T, version string, files map[string]string) (Repository, string) {
	t.Helper()
	folder := t.TempDir()
	label := filepath.Join(folder, "infrastructure-aws")
	if err := os.Mkdir(label, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		writeFile(t, filepath.Join(label, name), content)
	}
	return open1(t, filepath.Join(label, version, "infrastructure-components.yaml"), Options{}), label
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// open1 opens the repository of the infrastructure provider aws.
func open1(t *testing.T, url string, o Options) Repository {
	t.Helper()
	r, err := Open(t.Context(), aws(url), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func aws(url string) config.Provider {
	return config.Provider{Name: "aws", Type: clusterctlv1.InfrastructureProviderType, URL: url}
}

// wantError requires an error with a text.
func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %q", err, want)
	}
}

func TestALocalRepository(t *testing.T) {
	t.Parallel()
	r, label := repositoryOf(t, "latest", map[string]string{
		"v1.10.0/metadata.yaml": "of 1.10", "v1.9.0/metadata.yaml": "of 1.9", "v1.10.0-rc.1/x": "", "nonsense/x": "", "v2.0.0": "no folder",
	})
	if r.DefaultVersion() != "latest" || r.ComponentsFile() != "infrastructure-components.yaml" {
		t.Errorf("version %s, file %s", r.DefaultVersion(), r.ComponentsFile())
	}
	got, err := r.Versions(t.Context())
	if diff := cmp.Diff([]string{"v1.9.0", "v1.10.0-rc.1", "v1.10.0"}, got); err != nil || diff != "" {
		t.Errorf("error %v, versions (-want +got):\n%s", err, diff)
	}
	if data, err := r.File(t.Context(), "v1.9.0", "metadata.yaml"); err != nil || string(data) != "of 1.9" {
		t.Errorf("%q, %v", data, err)
	}
	_, err = r.File(t.Context(), "v1.9.0", "x.yaml")
	absent, ok := errors.AsType[*NotFoundError](err)
	if want := "release v1.9.0 of local repository " + label + " has no file x.yaml"; !ok || absent.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	_, err = r.File(t.Context(), "v3.0.0", "x.yaml")
	wantError(t, err, "local repository "+label+" has no release v3.0.0")
	if _, ok := errors.AsType[*NotFoundError](err); !ok {
		t.Errorf("error %v, want a NotFoundError", err)
	}
}

func TestFilesThatAreNotRead(t *testing.T) {
	t.Parallel()
	r, label := repositoryOf(t, "v1.0.0", map[string]string{"v1.0.0/a.yaml": "a", "v1.0.0/folder/a.yaml": "", "../secret/secret.yaml": "secret"})
	at := func(name string) string { return filepath.Join(label, "v1.0.0", name) }
	for name, to := range map[string]string{
		"inside.yaml": "a.yaml", "out.yaml": "../../secret/secret.yaml", "absolute.yaml": filepath.Join(label, "..", "secret", "secret.yaml"), "loop.yaml": "loop.yaml", "nowhere.yaml": "nothing.yaml",
	} {
		if err := os.Symlink(to, at(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(label, "..", "secret"), filepath.Join(label, "v9.0.0")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(at("fifo.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at("large.yaml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(at("large.yaml"), 100<<20); err != nil {
		t.Fatal(err)
	}
	if data, err := r.File(t.Context(), "v1.0.0", "inside.yaml"); err != nil || string(data) != "a" {
		t.Errorf("%q, %v", data, err)
	}
	for _, tc := range []struct{ version, name, want string }{
		{"v1.0.0", "out.yaml", "v1.0.0/out.yaml is a link that leads out of it"},
		{"v1.0.0", "absolute.yaml", "is a link that leads out of it"},
		{"v9.0.0", "secret.yaml", "is a link that leads out of it"},
		{"v1.0.0", "loop.yaml", "too many levels of symbolic links"},
		{"v1.0.0", "nowhere.yaml", "has no file nowhere.yaml"},
		{"v1.0.0", "fifo.yaml", "v1.0.0/fifo.yaml is no file"},
		{"v1.0.0", "folder", "v1.0.0/folder is no file"},
		{"v1.0.0", "large.yaml", "v1.0.0/large.yaml is larger than 32 MiB"},
		{"v1.0.0", "../v1.0.0/a.yaml", "is no name of a file"},
		{"v1.0.0", "..", "is no name of a file"},
		{"v1.0.0", "", "is no name of a file"},
		{"v1.0.0", "a\x00b", "is no name of a file"},
		{"../secret", "secret.yaml", `"../secret" is no semantic version`},
		{"v1.0.0/../../secret", "secret.yaml", "is no semantic version"},
		{"latest", "a.yaml", `"latest" is no semantic version`},
		{"v1.0", "a.yaml", "is no semantic version"},
	} {
		_, err := r.File(t.Context(), tc.version, tc.name)
		wantError(t, err, tc.want)
	}
}

func TestOverridesReplaceSingleFiles(t *testing.T) {
	t.Parallel()
	_, label := repositoryOf(t, "v1.0.0", map[string]string{"v1.0.0/a.yaml": "a", "v1.0.0/b.yaml": "b"})
	overrides := t.TempDir()
	writeFile(t, filepath.Join(overrides, "infrastructure-aws/v1.0.0/b.yaml"), "mine")
	writeFile(t, filepath.Join(overrides, "infrastructure-aws/v9.0.0/b.yaml"), "mine")
	for _, folder := range []string{overrides, filepath.Join(overrides, "nowhere")} {
		var used []string
		r := open1(t, label+"/latest/infrastructure-components.yaml", Options{Overrides: folder, Overridden: func(file string) { used = append(used, file) }})
		for name, want := range map[string]string{"a.yaml": "a", "b.yaml": map[bool]string{true: "mine", false: "b"}[folder == overrides]} {
			if data, err := r.File(t.Context(), "v1.0.0", name); err != nil || string(data) != want {
				t.Errorf("%s is %q, %v, want %q", name, data, err, want)
			}
		}
		if want := []string{filepath.Join(overrides, "infrastructure-aws/v1.0.0/b.yaml")}; folder == overrides && !slices.Equal(used, want) || folder != overrides && len(used) > 0 {
			t.Errorf("of %s used %q", folder, used)
		}
		if got, err := r.Versions(t.Context()); err != nil || len(got) != 1 {
			t.Errorf("versions %v, %v, want those of the repository alone", got, err)
		}
	}
}

func TestURLsOfNoRepository(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"":                                   "use https://github.com/OWNER",
		"repository/infrastructure-aws/v1/c": "use https://github.com/OWNER",
		"ftp://host/infrastructure-aws/v1/c": "use https://github.com/OWNER",
		"file://repository/infrastructure-aws/v1.0.0/c": "needs an absolute path",
		"/repository/aws/v1.0.0/c":                      "lie in FOLDER/infrastructure-aws/VERSION/",
		"/repository/infrastructure-aws/v1/c":           `"v1" is no semantic version`,
		"/c":                                            "lie in FOLDER/infrastructure-aws/VERSION/",
	} {
		_, err := Open(t.Context(), aws(url), Options{})
		wantError(t, err, "provider infrastructure-aws: url "+url+": ")
		wantError(t, err, want)
	}
	for _, url := range []string{"https://u:secret@h/%zz", "https://u:secret@h/x"} {
		if _, err := Open(t.Context(), aws(url), Options{}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error %v, want one without the password", url, err)
		}
	}
}
