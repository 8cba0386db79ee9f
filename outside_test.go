// SPDX-License-Identifier: Apache-2.0

package capstan

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const outsideMain = `package outside

import (
	_ "github.com/capstan-dev/capstan/api/core/v1beta2"
	_ "github.com/capstan-dev/capstan/clusterctl"
	_ "github.com/capstan-dev/capstan/conditions"
	_ "github.com/capstan-dev/capstan/contract"
	_ "github.com/capstan-dev/capstan/extension/catalog"
	_ "github.com/capstan-dev/capstan/extension/mutation"
	_ "github.com/capstan-dev/capstan/extension/openapi"
	_ "github.com/capstan-dev/capstan/extension/server"
	_ "github.com/capstan-dev/capstan/manifests"
)
`

// TestOthersCanImportUs builds a module that has none of our replace lines. It
// breaks when go.mod requires a version that exists only through one of them.
func TestOthersCanImportUs(t *testing.T) {
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":     "module outside.example\n\ngo 1.26.0\n\nrequire github.com/capstan-dev/capstan v0.0.0\n\nreplace github.com/capstan-dev/capstan => " + root + "\n",
		"go.sum":     string(sums),
		"outside.go": outsideMain,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "vet", "-mod=mod", "./...")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("an outside module does not build: %v\n%s", err, out)
	}
}
