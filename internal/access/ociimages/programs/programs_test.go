// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// compile builds a small program.
func compile(t *testing.T, arch, name string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "main.go")
	if err := os.WriteFile(file, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, name)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", program, file)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

func TestImagesShareWhatIsNotTheirOwn(t *testing.T) {
	t.Parallel()
	var layers [][]string
	for _, name := range []string{"one", "two"} {
		image, err := Image("amd64", []string{compile(t, "amd64", name)}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if got := config.Config.Entrypoint; len(got) != 1 || got[0] != "/"+name {
			t.Errorf("%s is run by %v", name, got)
		}
		layers = append(layers, []string{config.RootFS.DiffIDs[0].String(), config.RootFS.DiffIDs[1].String()})
	}
	if layers[0][0] != layers[1][0] || layers[0][1] == layers[1][1] {
		t.Errorf("the layers are %v, want the first to be the same", layers)
	}
}

func TestProgramsThatCannotRunAreRefused(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		arch, file, want string
	}{
		"nothing":              {"amd64", filepath.Join(t.TempDir(), "none"), "no such file"},
		"a script":             {"amd64", script, "no program for Linux"},
		"another architecture": {"amd64", compile(t, "arm64", "a"), "it is for EM_AARCH64, not for EM_X86_64"},
		"an unknown one":       {"mips", script, `architecture "mips" is not known`},
	} {
		if _, err := Image(tc.arch, []string{tc.file}, Options{}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
	dynamic := 0
	for _, arch := range []string{"amd64", "arm64"} { // the shell of this host is for one of them
		if _, err := Image(arch, []string{shell}, Options{}); err != nil && strings.Contains(err.Error(), "CGO_ENABLED=0") {
			dynamic++
		}
	}
	if dynamic != 1 {
		t.Errorf("%s is refused for its libraries %d times, want once", shell, dynamic)
	}
	if _, err := Image("amd64", nil, Options{}); err == nil {
		t.Error("an image of nothing was made")
	}
}
