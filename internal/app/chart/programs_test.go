// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// program returns the program that an environment variable names, as "make charts"
// does: its dependencies would be most of what this module requires.
func program(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Skipf("%s names no program: run make charts", variable)
	}
	return path
}

// output runs a program and returns what it prints.
func output(t *testing.T, program string, args ...string) ([]byte, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	var said bytes.Buffer
	cmd.Stderr, cmd.Env = &said, []string{"HOME=" + t.TempDir()}
	out, err := cmd.Output()
	if err != nil {
		t.Logf("%s %s: %s", filepath.Base(program), strings.Join(args, " "), said.String())
	}
	return out, err
}

// each are values of the chart, by what they change: none, every one alone, and all.
func each() map[string]map[string]any {
	sets := map[string]map[string]any{"nothing": nil, "all": all, "one replica": {"replicas": 1}, "no resources": {"resources": nil}}
	for name, value := range all {
		sets[name] = map[string]any{name: value}
	}
	return sets
}

func TestHelmMakesTheSameObjects(t *testing.T) {
	t.Parallel()
	helm := program(t, "CAPSTAN_HELM")
	dir := filepath.Join(t.TempDir(), "capstan")
	if err := Write(dir, files(t)); err != nil {
		t.Fatal(err)
	}
	for name, values := range each() {
		t.Run(name, func(t *testing.T) {
			text, err := yaml.Marshal(values)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "values.yaml")
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := output(t, helm, "lint", "--strict", "--values="+file, dir); err != nil {
				t.Errorf("helm lint: %v\n%s", err, out)
			}
			out, err := output(t, helm, "template", "capstan", dir, "--namespace=elsewhere", "--kube-version=1.36.0", "--values="+file)
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := split(out)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(byName(render(t, values)), byName(theirs)); diff != "" {
				t.Errorf("(-ours +helm's):\n%.3000s", diff)
			}
		})
	}
}

func TestHelmRefusesTheSourceOfTheChart(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), program(t, "CAPSTAN_HELM"), "template", "capstan", "../../../charts/capstan", "--kube-version=1.36.0").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--write-chart") {
		t.Errorf("got %v\n%.500s", err, out)
	}
}

func TestHelmPackagesWhatALintAccepts(t *testing.T) {
	t.Parallel()
	helm := program(t, "CAPSTAN_HELM")
	dir := filepath.Join(t.TempDir(), "capstan")
	if err := Write(dir, files(t)); err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if _, err := output(t, helm, "package", "--destination="+to, dir); err != nil {
		t.Fatal(err)
	}
	shown, err := output(t, helm, "show", "chart", filepath.Join(to, "capstan-1.2.3.tgz"))
	if err != nil || !strings.Contains(string(shown), "appVersion: v1.2.3") {
		t.Errorf("error %v:\n%s", err, shown)
	}
}

func TestKustomizeBuildsWhatIsPrinted(t *testing.T) {
	t.Parallel()
	kustomize := program(t, "CAPSTAN_KUSTOMIZE")
	for name, values := range each() {
		t.Run(name, func(t *testing.T) {
			want := render(t, values)
			base, err := Kustomization(want)
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(t.TempDir(), "base")
			if err := Write(dir, base); err != nil {
				t.Fatal(err)
			}
			out, err := output(t, kustomize, "build", dir)
			if err != nil {
				t.Fatal(err)
			}
			built, err := split(out)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(byName(want), byName(built)); diff != "" {
				t.Errorf("(-printed +built):\n%.3000s", diff)
			}
		})
	}
}

// TestKustomizePatchesTheBase does what a base is for.
func TestKustomizePatchesTheBase(t *testing.T) {
	t.Parallel()
	kustomize := program(t, "CAPSTAN_KUSTOMIZE")
	base, err := Kustomization(render(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := Write(filepath.Join(dir, "base"), base); err != nil {
		t.Fatal(err)
	}
	overlay := "resources: [../base]\nimages: [{name: ghcr.io/capstan-dev/capstan-manager, newName: registry.example.com/m, newTag: v9}]\nreplicas: [{name: capstan-manager, count: 3}]\n"
	if err := Write(filepath.Join(dir, "overlay"), map[string][]byte{"kustomization.yaml": []byte(overlay)}); err != nil {
		t.Fatal(err)
	}
	out, err := output(t, kustomize, "build", filepath.Join(dir, "overlay"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"image: registry.example.com/m:v9\n", "replicas: 3\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is missing", want)
		}
	}
}

// byName are objects by what they are called, of which there is one each.
func byName(objects []*unstructured.Unstructured) map[string]any {
	named := map[string]any{}
	for _, obj := range objects {
		named[obj.GetKind()+"/"+obj.GetName()] = obj.Object
	}
	return named
}
