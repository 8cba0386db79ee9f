// SPDX-License-Identifier: Apache-2.0

package capstan

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/doc"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPublicPackagesAreForOthers checks two rules for what other programs may import:
// they can name every type in its API, and they cannot change it for all users.
func TestPublicPackagesAreForOthers(t *testing.T) {
	for _, pkg := range publicPackages(t) {
		for _, name := range pkg.Scope().Names() {
			obj := pkg.Scope().Lookup(name)
			if !obj.Exported() {
				continue
			}
			if _, ok := obj.(*types.Var); ok {
				t.Errorf("%s.%s is a variable, which any importer could assign: make it a function or a constant", pkg.Path(), name)
			}
			seen := map[types.Type]bool{}
			for _, chain := range internalTypes(obj.Type(), name, seen) {
				t.Errorf("%s: %s, which others cannot name", pkg.Path(), chain)
			}
		}
	}
}

// TestLibrariesShowHowTheyAreUsed requires an example that runs, for the packages that
// other authors write programs against.
func TestLibrariesShowHowTheyAreUsed(t *testing.T) {
	for _, dir := range []string{"clusterctl", "clusterctl/tree", "conditions", "contract", "extension/catalog", "extension/mutation", "simulated"} {
		names, err := filepath.Glob(dir + "/*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		var files []*ast.File
		for _, name := range names {
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		if !slices.ContainsFunc(doc.Examples(files...), func(e *doc.Example) bool { return e.Output != "" }) {
			t.Errorf("%s has no example with an output", dir)
		}
	}
}

// internalTypes lists how an importer of typ reaches a type of an internal package:
// through fields, parameters, results, elements and methods.
func internalTypes(typ types.Type, chain string, seen map[types.Type]bool) (found []string) {
	if seen[typ] {
		return nil
	}
	seen[typ] = true
	in := func(typ types.Type, step string, args ...any) {
		found = append(found, internalTypes(typ, chain+" -> "+fmt.Sprintf(step, args...), seen)...)
	}
	switch typ := typ.(type) {
	case *types.Alias:
		in(types.Unalias(typ), "what it is")
	case *types.Named:
		for a := range typ.TypeArgs().Types() {
			in(a, "a type argument")
		}
		path := ""
		if p := typ.Obj().Pkg(); p != nil {
			path = p.Path()
		}
		switch {
		case !strings.HasPrefix(path, module):
			return found // of other modules, which are responsible for it
		case strings.Contains(path, "/internal/"):
			return append(found, chain+" is "+typ.String())
		}
		for m := range typ.Methods() {
			if m.Exported() {
				in(m.Signature(), "%s", m.Name())
			}
		}
		in(typ.Underlying(), "%s", typ.Obj().Name())
	case *types.Struct:
		for f := range typ.Fields() {
			if f.Exported() {
				in(f.Type(), "%s", f.Name())
			}
		}
	case *types.Interface:
		for m := range typ.Methods() {
			in(m.Signature(), "%s", m.Name())
		}
		for e := range typ.EmbeddedTypes() {
			in(e, "an embedded type")
		}
	case *types.Signature:
		for p := range typ.TypeParams().TypeParams() {
			in(p.Constraint(), "type parameter %s", p.Obj().Name())
		}
		in(typ.Params(), "its parameters")
		in(typ.Results(), "its results")
	case *types.Tuple:
		for v := range typ.Variables() {
			in(v.Type(), "%s", v.Name())
		}
	case *types.Union:
		for term := range typ.Terms() {
			in(term.Type(), "a term")
		}
	case *types.Map:
		in(typ.Key(), "its key")
		in(typ.Elem(), "its element")
	case interface{ Elem() types.Type }: // array, channel, pointer, slice
		in(typ.Elem(), "its element")
	}
	return found
}

// publicPackages are the packages that others may import, as the compiler
// exports them.
func publicPackages(t *testing.T) []*types.Package {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}"}
	for _, dir := range publicDirs(t) {
		args = append(args, "./"+dir)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list -export: %v", err)
	}
	exports := map[string]string{}
	for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
		path, file, _ := strings.Cut(s.Text(), "\t")
		exports[path] = file
	}
	importer := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	var packages []*types.Package
	for _, dir := range publicDirs(t) {
		p, err := importer.Import(module + dir)
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
	return packages
}

// publicDirs are the folders of the packages that others may import.
func publicDirs(t *testing.T) (dirs []string) {
	t.Helper()
	walk(t, func(s source) {
		if s.ast.Name.Name != "main" && !strings.Contains("/"+s.dir, "/internal/") && !slices.Contains(dirs, s.dir) {
			dirs = append(dirs, s.dir)
		}
	})
	return dirs
}
