// SPDX-License-Identifier: Apache-2.0

package capstan

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/capstan-dev/capstan/"

// layers is policy. A package belongs to the first line whose prefix it has,
// and may import packages of the layers named in may. Do not change a line to
// make a build pass; move the code.
var layers = []layer{
	{name: "api", dirs: []string{"api/"}, may: []string{"api"}},
	{name: "leaf", dirs: []string{"contract", "conditions", "extension", "manifests", "internal/kit/"}, may: []string{"api", "leaf"}},
	{name: "pure", dirs: []string{"internal/pure/", "clusterctl/tree"}, may: []string{"api", "leaf", "pure"}, pure: true},
	{name: "access", dirs: []string{"internal/access/", "internal/mgmtplane"}, may: []string{"api", "leaf", "pure", "access"}},
	{name: "simulated", dirs: []string{"internal/simulated"}, may: []string{"api", "leaf", "pure", "access", "simulated"}},
	{name: "controller", dirs: []string{"internal/controller/", "internal/admission/"}, may: []string{"api", "leaf", "pure", "access"}},
	{name: "library", dirs: []string{"clusterctl", "conformance/extension"}, may: []string{"api", "leaf", "pure", "access", "library"}},
	{name: "app", dirs: []string{"internal/app", "internal/cli"}, may: []string{"api", "leaf", "pure", "access", "simulated", "controller", "library", "app"}},
	{name: "author", dirs: []string{"cmd/sample-extension"}, may: []string{"api", "leaf"}},
	{name: "cmd", dirs: []string{"cmd/"}, may: []string{"app"}},
	{name: "testing", dirs: []string{"conformance", "bench", "internal/sim", "internal/testenv", "internal/e2e", "internal/builder"}, may: []string{"api", "leaf", "pure", "access", "simulated", "controller", "library", "app", "testing"}},
}

// only says which packages alone may import something from outside.
var only = map[string][]string{
	"k8s.io/kubernetes":      {"internal/mgmtplane"},
	"go.etcd.io/etcd/server": {"internal/mgmtplane"},
	"github.com/spf13/cobra": {"internal/cli", "cmd/"},
}

// impure may not be imported by a pure layer: without them a package cannot
// wait, call, log or read a file.
var impure = []string{"context", "net", "net/http", "os", "log", "log/slog", "math/rand", "sigs.k8s.io/controller-runtime", "k8s.io/client-go", "github.com/go-logr/logr"}

type layer struct {
	name      string
	dirs, may []string
	pure      bool
}

func TestLayers(t *testing.T) {
	imports := map[string]map[string]string{} // package -> what it imports -> in which file
	walk(t, func(dir, file string, f *ast.File) {
		if imports[dir] == nil {
			imports[dir] = map[string]string{}
		}
		for _, spec := range f.Imports {
			imports[dir][strings.Trim(spec.Path.Value, `"`)] = file
		}
		if l := layerOf(dir); l != nil && l.pure {
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Now" {
					if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" {
						t.Errorf("%s calls time.Now: take the time as a parameter", file)
					}
				}
				return true
			})
		}
	})
	for dir, imps := range imports {
		l := layerOf(dir)
		if l == nil {
			t.Errorf("%s is in no layer", dir)
			continue
		}
		for imp, file := range imps {
			if inside, ok := strings.CutPrefix(imp, module); ok {
				if to := layerOf(inside); to == nil || !slices.Contains(l.may, to.name) {
					t.Errorf("%s (%s) must not import %s", file, l.name, inside)
				}
			}
			for pkg, where := range only {
				if hasPrefix(imp, []string{pkg}) && !hasPrefix(dir, where) {
					t.Errorf("%s must not import %s: only %v may", file, imp, where)
				}
			}
		}
		if l.pure {
			for _, chain := range impurities(imports, dir, dir, map[string]bool{}) {
				t.Errorf("%s is pure, yet %s", dir, chain)
			}
		}
	}
}

// impurities lists how dir reaches an impure import, through packages of this
// module too.
func impurities(imports map[string]map[string]string, dir, chain string, seen map[string]bool) (found []string) {
	if seen[dir] {
		return nil
	}
	seen[dir] = true
	for imp := range imports[dir] {
		if inside, ok := strings.CutPrefix(imp, module); ok {
			found = append(found, impurities(imports, inside, chain+" -> "+inside, seen)...)
		} else if hasPrefix(imp, impure) {
			found = append(found, chain+" -> "+imp)
		}
	}
	return found
}

func layerOf(dir string) *layer {
	for i, l := range layers {
		if hasPrefix(dir, l.dirs) {
			return &layers[i]
		}
	}
	return nil
}

// hasPrefix reports whether s is one of the prefixes or lies below one.
func hasPrefix(s string, prefixes []string) bool {
	for _, p := range prefixes {
		p = strings.TrimSuffix(p, "/")
		if s == p || strings.HasPrefix(s, p+"/") {
			return true
		}
	}
	return false
}
