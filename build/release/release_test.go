// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTwoBuildsAreEqual builds a small program twice, in two places; make
// release-check does so with the whole release.
func TestTwoBuildsAreEqual(t *testing.T) {
	var programs, bills []string
	for _, place := range []string{"one", "a/place/elsewhere"} {
		dir := filepath.Join(t.TempDir(), place)
		write(t, filepath.Join(dir, "go.mod"), "module example.com/small\n\ngo 1.26\n")
		write(t, filepath.Join(dir, "main.go"), "package main\n\nfunc main() { panic(\"here\") }\n")
		t.Chdir(dir)
		file := filepath.Join(dir, "small")
		if err := build(t.Context(), file, ".", runtime.GOOS, runtime.GOARCH, "-s -w"); err != nil {
			t.Fatal(err)
		}
		if _, err := describe(file); err != nil {
			t.Fatal(err)
		}
		programs, bills = append(programs, read(t, file)), append(bills, read(t, file+".spdx.json"))
	}
	if programs[0] != programs[1] {
		t.Error("the programs differ")
	}
	if d := cmp.Diff(bills[0], bills[1]); d != "" {
		t.Errorf("their bills of materials differ:\n%s", d)
	}
}

// TestAProgramKnowsItsVersion builds one from a tag, for a user whose settings
// disable the recording of versions.
func TestAProgramKnowsItsVersion(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not here")
	}
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "-buildvcs=false")
	write(t, filepath.Join(dir, "go.mod"), "module example.com/small\n\ngo 1.26\n")
	write(t, filepath.Join(dir, "main.go"), "package main\n\nfunc main() {}\n")
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "first"}, {"tag", "v1.2.3"}} {
		if out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	for _, want := range []string{"v1.2.3", "v1.2.3+dirty"} {
		file := filepath.Join(t.TempDir(), "small") // no file of the repository
		if err := build(t.Context(), file, ".", runtime.GOOS, runtime.GOARCH, "-s -w"); err != nil {
			t.Fatal(err)
		}
		if got, err := describe(file); err != nil || got != want {
			t.Errorf("version %q, %v: want %q", got, err, want)
		}
		write(t, filepath.Join(dir, "main.go"), "package main\n\nfunc main() { println() }\n")
	}
}

func TestWhatDoesNotKnowItsVersionIsNoRelease(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"v1.2.3": "", "v1.2.3-rc.1": "", "v0.0.0-20260102030405-abcdefabcdef": "", "v1.2.3+dirty": "",
		"(devel)": `its version is "(devel)": build it in a clone of the repository, not in a worktree of one, with git at hand`, "": `its version is ""`,
	} {
		if err := mayBeReleased(version); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", version, err, want)
		}
	}
}

func TestABillOfMaterialsNamesEachModuleOnce(t *testing.T) {
	t.Parallel()
	info := &debug.BuildInfo{
		GoVersion: "go1.26.8", Main: debug.Module{Path: "example.com/main", Version: "v1.2.3"},
		Settings: []debug.BuildSetting{{Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}},
		Deps: []*debug.Module{
			{Path: "example.com/a_b", Version: "v1.0.0", Sum: "h1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="},
			{Path: "example.com/old", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/new", Version: "v2.0.0"}},
		},
	}
	list, err := billOfMaterials("program", "abc", info)
	if err != nil {
		t.Fatal(err)
	}
	var b bill
	if err := json.Unmarshal(list, &b); err != nil {
		t.Fatal(err)
	}
	seen, names := map[string]bool{}, map[string]bool{}
	for _, p := range b.Packages {
		if seen[p.SPDXID] {
			t.Errorf("%s is there twice", p.SPDXID)
		}
		seen[p.SPDXID], names[p.Name] = true, true
	}
	for _, want := range []string{"go", "example.com/main", "example.com/a_b", "example.com/new"} {
		if !names[want] {
			t.Errorf("%s is not there", want)
		}
	}
	if names["example.com/old"] || b.CreationInfo.Created != "2026-01-02T03:04:05Z" || !strings.Contains(string(list), `"pkg:golang/example.com/a_b@v1.0.0"`) || !strings.Contains(string(list), `"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"`) {
		t.Errorf("got %s", list)
	}
	for _, r := range b.Relationships {
		if !seen[r.To] {
			t.Errorf("%s is related to %s, which is not there", r.From, r.To)
		}
	}
}

func TestTheInstallerTakesTheProgramOfTheReleaseOnly(t *testing.T) {
	t.Parallel()
	_, curl := exec.LookPath("curl")
	if _, wget := exec.LookPath("wget"); curl != nil && wget != nil {
		t.Skip("neither curl nor wget is here")
	}
	dir, content := t.TempDir(), "#!/bin/sh\necho v1.2.3\n"
	for _, p := range platforms {
		write(t, filepath.Join(dir, strings.Join([]string{p.program, p.os, p.arch}, "_")), content)
	}
	if err := errors.Join(fill(dir, "v1.2.3"), writeSums(dir)); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	install := func(base string) (string, string, error) {
		into := filepath.Join(t.TempDir(), "bin")
		cmd := exec.CommandContext(t.Context(), "sh", filepath.Join(dir, "install.sh"))
		cmd.Env = append(os.Environ(), "DIR="+into, "BASE_URL="+base, "no_proxy=*")
		out, err := cmd.CombinedOutput()
		return filepath.Join(into, "capstan"), string(out), err
	}
	installed, out, err := install(server.URL)
	if err != nil || read(t, installed) != content || !strings.Contains(out, "capstan: v1.2.3") {
		t.Errorf("%v: %s", err, out)
	}
	write(t, filepath.Join(dir, "capstan_"+runtime.GOOS+"_"+runtime.GOARCH), "something else")
	installed, out, err = install(server.URL)
	if err == nil || !strings.Contains(out, "it is not the file of this release, and is not installed") {
		t.Errorf("another file: %v: %s", err, out)
	}
	if _, err := os.Stat(installed); err == nil {
		t.Error("another file was installed")
	}
	if _, out, err = install(server.URL + "/nowhere"); err == nil || !strings.Contains(out, "install.sh: cannot download "+server.URL+"/nowhere/capstan_") {
		t.Errorf("nothing: %v: %s", err, out)
	}
	formula := read(t, filepath.Join(dir, "capstan.rb"))
	if sums := read(t, filepath.Join(dir, "SHA256SUMS")); !strings.Contains(sums, "  capstan.rb\n") || !strings.Contains(sums, "  install.sh\n") || strings.Count(formula, "sha256 \"") != 4 {
		t.Errorf("checksums:\n%s\nformula:\n%s", sums, formula)
	}
}

func TestAReleaseIsNotWrittenOverAnother(t *testing.T) {
	t.Parallel()
	if err := run(t.Context(), t.TempDir(), ""); err == nil || !strings.Contains(err.Error(), "is there already: remove it") {
		t.Errorf("error %v", err)
	}
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o644), os.Chmod(file, 0o755)); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
