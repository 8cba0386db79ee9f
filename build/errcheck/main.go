// SPDX-License-Identifier: Apache-2.0

//go:build ignore

// Command errcheck is the linter for errors that are not handled, as a program for "go vet
// -vettool", which keeps the result of each package until it changes. Unlike unitchecker
// of golang.org/x/tools, it reads of dependencies what the compiler exports, and does not
// check the source of all 2,500 of them. It is built with go.tools.mod.
package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"

	"github.com/kisielk/errcheck/errcheck"
	"golang.org/x/tools/go/analysis"
)

// config is what go vet writes for each package.
type config struct {
	ID, ImportPath, GoVersion, VetxOutput, Stdout string
	GoFiles                                       []string
	ImportMap, PackageFile                        map[string]string
	VetxOnly                                      bool
}

// diagnostic is a finding as go vet reads it.
type diagnostic map[string]string

func main() {
	if err := run(os.Args[len(os.Args)-1]); err != nil {
		fmt.Fprintln(os.Stderr, "errcheck:", err)
		os.Exit(1)
	}
}

func run(arg string) error {
	switch arg {
	case "-flags":
		fmt.Println("[]")
		return nil
	case "-V=full": // results are kept for as long as the program is the same
		name, err := os.Executable()
		if err != nil {
			return err
		}
		program, err := os.ReadFile(name)
		fmt.Printf("%s version devel buildID=%x\n", os.Args[0], sha256.Sum256(program))
		return err
	}
	var c config
	text, err := os.ReadFile(arg)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return fmt.Errorf("%s: %w", arg, err)
	}
	if err := os.WriteFile(c.VetxOutput, nil, 0o600); err != nil || c.VetxOnly { // it has no facts
		return err
	}
	found, err := check(c)
	if err != nil {
		return fmt.Errorf("%s: %w", c.ImportPath, err)
	}
	all := map[string]map[string][]diagnostic{}
	if len(found) > 0 {
		all[c.ID] = map[string][]diagnostic{errcheck.Analyzer.Name: found}
	}
	text, err = json.Marshal(all)
	return errors.Join(err, os.WriteFile(c.Stdout, text, 0o600))
}

// check returns the errors of a package that are not handled.
func check(c config) (found []diagnostic, err error) {
	files, set := make([]*ast.File, len(c.GoFiles)), token.NewFileSet()
	for i, name := range c.GoFiles {
		if files[i], err = parser.ParseFile(set, name, nil, parser.SkipObjectResolution); err != nil {
			return nil, err
		}
	}
	exported := importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(c.PackageFile[c.ImportMap[path]]) })
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
	checked := types.Config{GoVersion: c.GoVersion, Importer: exported}
	pkg, err := checked.Check(c.ImportPath, set, files, info)
	if err != nil {
		return nil, err
	}
	_, err = errcheck.Analyzer.Run(&analysis.Pass{
		Analyzer: errcheck.Analyzer, Fset: set, Files: files, Pkg: pkg, TypesInfo: info,
		Report: func(d analysis.Diagnostic) {
			found = append(found, diagnostic{"posn": set.Position(d.Pos).String(), "message": d.Message})
		},
	})
	return found, err
}
