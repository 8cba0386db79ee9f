// SPDX-License-Identifier: Apache-2.0

package capstan

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// outsideUse uses the packages that other programs use, and runs the suites both
// as a program and as a test.
const outsideUse = `package outside

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/clusterctl/tree"
	conformance "github.com/capstan-dev/capstan/conformance/extension"
	"github.com/capstan-dev/capstan/conformance/provider"
	"github.com/capstan-dev/capstan/simulated"
)

func read(ctx context.Context, c *clusterctl.Client, key client.ObjectKey) (*tree.Node, error) {
	var in tree.Input
	in, err := c.ReadTree(ctx, key, tree.Options{})
	return tree.Build(in, tree.Options{}), err
}

func check(ctx context.Context, url string) (conformance.Report, error) {
	r := conformance.Run(ctx, conformance.Config{URL: url})
	return r, r.Err()
}

func TestExtension(t *testing.T) {
	conformance.Test(t, conformance.Config{URL: "https://127.0.0.1:9443"})
}

func TestOnASimulatedCluster(t *testing.T) {
	if cfg := simulated.Start(t, simulated.Options{Workers: 3}); cfg.Host == "" {
		t.Error("it has no address")
	}
}

func TestProvider(t *testing.T) {
	provider.Run(t, provider.Config{Files: []string{"components.yaml"}})
}
`

// TestOthersCanImportUs builds a module that imports all that is public and has
// none of our replace lines. It breaks when go.mod requires a version that
// exists only through one of them, and when a type cannot be named outside.
func TestOthersCanImportUs(t *testing.T) {
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	imports := "package outside\n\nimport (\n"
	for _, pkg := range publicDirs(t) {
		imports += "\t_ \"" + module + pkg + "\"\n"
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":      "module outside.example\n\ngo 1.26.0\n\nrequire github.com/capstan-dev/capstan v0.0.0\n\nreplace github.com/capstan-dev/capstan => " + root + "\n",
		"go.sum":      string(sums),
		"outside.go":  imports + ")\n",
		"use_test.go": outsideUse,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "list", "-mod=mod", "-export", "-test", "./...")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("an outside module does not build: %v\n%s", err, out)
	}
}
