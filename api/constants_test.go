// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sections are the parts of the facts that have a package of ours.
var sections = map[string]string{
	"api/core/v1beta2":                 "core/v1beta2",
	"api/runtime/v1beta2":              "runtime/v1beta2",
	"api/addons/v1beta2":               "addons/v1beta2",
	"api/bootstrap/kubeadm/v1beta2":    "bootstrap/v1beta2",
	"api/controlplane/kubeadm/v1beta2": "controlplane/v1beta2",
	"api/ipam/v1beta2":                 "ipam/v1beta2",
	"cmd/clusterctl/api/v1alpha3":      "clusterctl/v1alpha3",
}

// skipped are the parts that have no package here yet.
var skipped = []string{"api/core/v1beta1"}

// aliases are the package names that expressions refer to other packages by.
var aliases = map[string]string{"clusterv1": "core/v1beta2"}

func TestConstantsAgreeWithTheFacts(t *testing.T) {
	t.Parallel()
	ours := map[string]scope{}
	for _, dir := range sections {
		ours[dir] = constants(t, dir)
	}
	wanted := facts(t)
	for section, names := range wanted {
		dir, ok := sections[section]
		if !ok {
			t.Errorf("facts have a section %s that no package answers", section)
			continue
		}
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			for _, name := range slices.Sorted(maps.Keys(names)) {
				want, err := evaluate(wanted, section, names[name], sectionOf)
				if err != nil {
					t.Errorf("facts: %s: %v", name, err)
					continue
				}
				expr, ok := ours[dir][name]
				if !ok {
					t.Errorf("%s is missing, want %s", name, want)
					continue
				}
				got, err := evaluate(ours, dir, expr, dirOf)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				if !constant.Compare(got, token.EQL, want) {
					t.Errorf("%s = %s, want %s", name, got, want)
				}
			}
		})
	}
}

// scope maps the names of one package to their values.
type scope map[string]ast.Expr

func dirOf(alias string) string { return aliases[alias] }

func sectionOf(alias string) string {
	for section, dir := range sections {
		if dir == aliases[alias] {
			return section
		}
	}
	return ""
}

// evaluate computes a constant expression in package pkg. lookup returns the
// package of an import alias.
func evaluate(in map[string]scope, pkg string, e ast.Expr, lookup func(string) string) (constant.Value, error) {
	switch e := e.(type) {
	case *ast.BasicLit:
		return constant.MakeFromLiteral(e.Value, e.Kind, 0), nil
	case *ast.Ident:
		value, ok := in[pkg][e.Name]
		if !ok {
			return nil, fmt.Errorf("%s does not exist in %s", e.Name, pkg)
		}
		return evaluate(in, pkg, value, lookup)
	case *ast.SelectorExpr:
		alias, ok := e.X.(*ast.Ident)
		if !ok {
			return nil, fmt.Errorf("selector on %T", e.X)
		}
		return evaluate(in, lookup(alias.Name), e.Sel, lookup)
	case *ast.CallExpr: // a conversion
		return evaluate(in, pkg, e.Args[0], lookup)
	case *ast.ParenExpr:
		return evaluate(in, pkg, e.X, lookup)
	case *ast.BinaryExpr:
		x, err := evaluate(in, pkg, e.X, lookup)
		if err != nil {
			return nil, err
		}
		y, err := evaluate(in, pkg, e.Y, lookup)
		if err != nil {
			return nil, err
		}
		return constant.BinaryOp(x, e.Op, y), nil
	default:
		return nil, fmt.Errorf("%T is no constant", e)
	}
}

// constants parses the constants, and the variables that stand in for one, of
// a package below api.
func constants(t *testing.T, dir string) scope {
	t.Helper()
	all := scope{}
	for _, f := range parse(t, dir) {
		for _, d := range f.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || (decl.Tok != token.CONST && decl.Tok != token.VAR) {
				continue
			}
			for _, s := range decl.Specs {
				spec := s.(*ast.ValueSpec)
				for i, name := range spec.Names {
					if i < len(spec.Values) {
						all[name.Name] = spec.Values[i]
					}
				}
			}
		}
	}
	return all
}

// parse parses the Go files of a package below api, without tests and deep
// copies.
func parse(t *testing.T, dir string) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if base := filepath.Base(name); strings.HasSuffix(base, "_test.go") || strings.HasPrefix(base, "zz_generated") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		t.Fatalf("no package in %s", dir)
	}
	return files
}

// facts parses testdata/facts/constants.txt.
func facts(t *testing.T) map[string]scope {
	t.Helper()
	data, err := os.ReadFile("testdata/facts/constants.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]scope{}
	section := ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "# "); ok {
			section = title
			continue
		}
		if line == "" || slices.Contains(skipped, section) {
			continue
		}
		name, text, ok := strings.Cut(line, " = ")
		if !ok {
			t.Fatalf("facts: %q is no constant", line)
		}
		expr, err := parser.ParseExpr(text)
		if err != nil {
			t.Fatalf("facts: %q: %v", line, err)
		}
		if all[section] == nil {
			all[section] = scope{}
		}
		all[section][name] = expr
	}
	return all
}
