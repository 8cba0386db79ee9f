// SPDX-License-Identifier: Apache-2.0

package capstan

import (
	"bytes"
	"fmt"
	"go/ast"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	maxFileLines      = 500
	maxFuncLines      = 80
	maxReconcileLines = 60
	maxParams         = 6
	maxPackageFiles   = 15
	maxTestFileLines  = 800
	maxTestFuncLines  = 150
	maxPackageLines   = 2500
)

// tooBig lists what is over a limit today and why. It may only shrink.
var tooBig = map[string]string{
	"internal/sim/world.go: func Eventf: parameters": "the signature of Kubernetes' event recorder",
	"api/core/v1beta2: files of the package":         "types and conditions of eight kinds",
	"internal/cli: files of the package":             "one file a command",
	"api/core/v1beta2: lines of the package":         "one group, one version: the wire decides how much there is",
}

func TestSizes(t *testing.T) {
	over, packages, files := map[string]bool{}, map[string]int{}, map[string]int{}
	limit := func(what string, n, max int) {
		if n <= max {
			return
		}
		over[what] = true
		if tooBig[what] == "" {
			t.Errorf("%s: %d, limit %d", what, n, max)
		}
	}
	walk(t, func(dir, file string, f *ast.File) {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		packages[dir] += lines(src)
		files[dir]++
		limit(file+": lines", lines(src), maxFileLines)
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			max := maxFuncLines
			if fn.Name.Name == "Reconcile" {
				max = maxReconcileLines
			}
			what := fmt.Sprintf("%s: func %s", file, fn.Name.Name)
			limit(what+": lines", lines(src[fn.Pos()-f.FileStart:fn.End()-f.FileStart])+1, max)
			limit(what+": parameters", fn.Type.Params.NumFields(), maxParams)
		}
	})
	for dir, n := range packages {
		limit(dir+": lines of the package", n, maxPackageLines)
	}
	for dir, n := range files {
		limit(dir+": files of the package", n, maxPackageFiles)
	}
	for what := range tooBig {
		if !over[what] {
			t.Errorf("%s is small enough now: take it off the list", what)
		}
	}
}

// TestNobodyIsExempt refuses comments that silence a linter: what is right is
// written so that the linter sees it, and a check that is wrong for us is off
// for everybody.
func TestNobodyIsExempt(t *testing.T) {
	everyFile(t, func(s source) {
		for n, line := range bytes.Split(s.src, []byte("\n")) {
			if exemption.Match(line) {
				t.Errorf("%s:%d: %s", s.file, n+1, bytes.TrimSpace(line))
			}
		}
	})
}

var exemption = regexp.MustCompile(`//\s*(nolint|lint:|revive:|#nosec)`)

var vagueNames = []string{"base", "common", "helper", "helpers", "misc", "pkg", "shared", "types", "util", "utils"}

func TestNames(t *testing.T) {
	walk(t, func(dir, file string, f *ast.File) {
		if slices.Contains(vagueNames, path.Base(dir)) || slices.Contains(vagueNames, f.Name.Name) {
			t.Errorf("%s: say what package %s holds", file, f.Name.Name)
		}
	})
}

func TestDocs(t *testing.T) {
	chart, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	documented, tops := map[string]bool{}, map[string]bool{}
	walk(t, func(dir, _ string, f *ast.File) {
		documented[dir] = documented[dir] || f.Doc != nil
		tops[strings.SplitN(dir, "/", 2)[0]] = true
		if rest, ok := strings.CutPrefix(dir, "internal/"); ok {
			tops["internal/"+strings.SplitN(rest, "/", 2)[0]] = true
		}
	})
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s has no package comment", dir)
		}
	}
	for top := range tops {
		if !bytes.Contains(chart, []byte("`"+top+"/`")) {
			t.Errorf("ARCHITECTURE.md does not mention `%s/`", top)
		}
	}
	for _, m := range regexp.MustCompile("`([a-z/]+)/`").FindAllSubmatch(chart, -1) {
		if _, err := os.Stat(string(m[1])); err != nil {
			t.Errorf("ARCHITECTURE.md names `%s/`, which is not there", m[1])
		}
	}
}

// TestGoMod keeps the module importable from outside: a required v0.0.0 works
// here, thanks to a replace, and for nobody else.
func TestGoMod(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^\t(k8s\.io/\S+ v0\.0\.0)( |$)`).FindAllSubmatch(mod, -1) {
		t.Errorf("go.mod requires %s: require the real version", m[1])
	}
}

func lines(b []byte) int { return bytes.Count(b, []byte("\n")) }
