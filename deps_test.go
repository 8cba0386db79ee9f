// SPDX-License-Identifier: Apache-2.0

package capstan

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestHeavyImportsStayWhereTheyAre keeps an API server and etcd out of
// everything but the program that runs them: whoever imports our types or our
// libraries must not carry them.
func TestHeavyImportsStayWhereTheyAre(t *testing.T) {
	heavy := []string{"k8s.io/kubernetes", "go.etcd.io/etcd/server/v3"}
	for _, pkg := range []string{"./api/...", "./contract/...", "./conditions/...", "./clusterctl/...", "./manifests/...", "./extension/...", "./conformance/extension/...", "./internal/cli/...", "./internal/app/manager/...", "./cmd/capstan-manager"} {
		for _, dep := range deps(t, pkg) {
			if hasPrefix(dep, heavy) {
				t.Errorf("%s reaches %s; only cmd/capstan may", pkg, dep)
			}
		}
	}
}

// TestTypesAreLight keeps clients and controllers out of what holds types only,
// and out of the programs of extension authors.
func TestTypesAreLight(t *testing.T) {
	for _, pkg := range []string{"./api/...", "./contract/...", "./conditions/...", "./extension/...", "./cmd/sample-extension"} {
		for _, dep := range deps(t, pkg) {
			if hasPrefix(dep, []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime", "k8s.io/apiserver"}) {
				t.Errorf("%s reaches %s", pkg, dep)
			}
		}
	}
}

// TestUpstreamIsNotImported keeps upstream's code out of this module; peer/ has
// a module of its own to compare with it.
func TestUpstreamIsNotImported(t *testing.T) {
	all := deps(t, "./...")
	if i := slices.IndexFunc(all, func(p string) bool { return hasPrefix(p, []string{"sigs.k8s.io/cluster-api"}) }); i >= 0 {
		t.Errorf("%s is imported", all[i])
	}
}

func deps(t *testing.T, pkg string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", pkg)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list -deps %s: %v", pkg, err)
	}
	return strings.Fields(string(out))
}
