// SPDX-License-Identifier: Apache-2.0

//go:build ignore

// Command lint has the checks of go vet, staticcheck and errcheck as a program for "go vet
// -vettool", which keeps the result of each package until it changes. It reads of
// dependencies what the compiler exports, and not the source of all 2,500 of them, as go
// vet and staticcheck themselves do: of functions in other packages it knows only by
// neverReturns that they do not return, and by their parameters that they format. It is
// built with go.tools.mod.
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
	"reflect"
	"runtime"
	"slices"

	"github.com/kisielk/errcheck/errcheck"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/printf"
	"golang.org/x/tools/go/analysis/suite/vet"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
	"honnef.co/go/tools/unused"
)

// omitted are checks that are not made: an error may begin with a Kind, which is a proper
// name; and a server must serve what is deprecated for its clients.
var omitted = []string{"ST1005", "SA1019"}

// neverReturns are functions of other packages that do not return.
var neverReturns = []string{
	"os.Exit", "runtime.Goexit", "log.Fatal", "log.Fatalf", "log.Fatalln",
	"(*testing.common).Fatal", "(*testing.common).Fatalf", "(*testing.common).FailNow",
	"(*testing.common).Skip", "(*testing.common).Skipf", "(*testing.common).SkipNow",
}

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
		fmt.Fprintln(os.Stderr, "lint:", err)
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
	if err := os.WriteFile(c.VetxOutput, nil, 0o600); err != nil || c.VetxOnly { // dependencies have no facts
		return err
	}
	p, err := load(c)
	if err != nil {
		return fmt.Errorf("%s: %w", c.ImportPath, err)
	}
	found := map[string][]diagnostic{}
	for _, a := range checks() {
		if _, err := p.run(a, func(d diagnostic) { found[a.Name] = append(found[a.Name], d) }); err != nil {
			return fmt.Errorf("%s: %s: %w", c.ImportPath, a.Name, err)
		}
	}
	all := map[string]map[string][]diagnostic{}
	if len(found) > 0 {
		all[c.ID] = found
	}
	text, err = json.Marshal(all)
	return errors.Join(err, os.WriteFile(c.Stdout, text, 0o600))
}

// checks are those that go vet and staticcheck make by default, unused code, and errcheck.
func checks() []*analysis.Analyzer {
	all := append(slices.Clone(vet.Suite), errcheck.Analyzer, unusedCode)
	for _, a := range slices.Concat(simple.Analyzers, staticcheck.Analyzers, stylecheck.Analyzers) {
		if !a.Doc.NonDefault && !slices.Contains(omitted, a.Analyzer.Name) {
			all = append(all, a.Analyzer)
		}
	}
	return all
}

// unusedCode reports what unused.Analyzer has only in its result, because staticcheck
// compares the variants of a package. Here there is one variant, which has the tests.
var unusedCode = &analysis.Analyzer{
	Name: "unused", Requires: []*analysis.Analyzer{unused.Analyzer.Analyzer},
	Run: func(pass *analysis.Pass) (any, error) {
		for _, o := range pass.ResultOf[unused.Analyzer.Analyzer].(unused.Result).Unused {
			pass.Report(analysis.Diagnostic{Category: o.Position.String(), Message: fmt.Sprintf("%s %s is unused", o.Kind, o.Name)})
		}
		return nil, nil
	},
}

// loaded is a package with its types, and what analyzers know about it.
type loaded struct {
	set     *token.FileSet
	files   []*ast.File
	pkg     *types.Package
	info    *types.Info
	results map[*analysis.Analyzer]any
	facts   map[key]analysis.Fact
}

func load(c config) (*loaded, error) {
	p := &loaded{set: token.NewFileSet(), results: map[*analysis.Analyzer]any{}, facts: map[key]analysis.Fact{}, info: &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
		Implicits: map[ast.Node]types.Object{}, Instances: map[*ast.Ident]types.Instance{}, Scopes: map[ast.Node]*types.Scope{},
		Selections: map[*ast.SelectorExpr]*types.Selection{}, FileVersions: map[*ast.File]string{},
	}}
	for _, name := range c.GoFiles {
		f, err := parser.ParseFile(p.set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, f)
	}
	exported := importer.ForCompiler(p.set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(c.PackageFile[c.ImportMap[path]]) })
	checked := types.Config{GoVersion: c.GoVersion, Importer: exported, Sizes: types.SizesFor("gc", runtime.GOARCH)}
	var err error
	p.pkg, err = checked.Check(c.ImportPath, p.set, p.files, p.info)
	return p, err
}

// run returns the result of an analyzer, after those that it requires.
func (p *loaded) run(a *analysis.Analyzer, report func(diagnostic)) (any, error) {
	if result, is := p.results[a]; is {
		return result, nil
	}
	of := map[*analysis.Analyzer]any{}
	for _, required := range a.Requires {
		result, err := p.run(required, func(diagnostic) {})
		if err != nil {
			return nil, err
		}
		of[required] = result
	}
	result, err := a.Run(&analysis.Pass{
		Analyzer: a, Fset: p.set, Files: p.files, Pkg: p.pkg, TypesInfo: p.info, TypesSizes: types.SizesFor("gc", runtime.GOARCH), ResultOf: of, ReadFile: os.ReadFile,
		Report: func(d analysis.Diagnostic) {
			where := p.set.Position(d.Pos).String()
			if !d.Pos.IsValid() { // unusedCode
				where = d.Category
			}
			report(diagnostic{"posn": where, "message": d.Message})
		},
		ImportObjectFact: p.fact, AllObjectFacts: func() []analysis.ObjectFact { return nil },
		ExportObjectFact: func(of types.Object, f analysis.Fact) { p.facts[key{of, reflect.TypeOf(f)}] = f },
	})
	p.results[a] = result
	return result, err
}

// key identifies a fact about an object.
type key struct {
	of   types.Object
	kind reflect.Type
}

// fact sets f to what is known about an object, if something is.
func (p *loaded) fact(of types.Object, f analysis.Fact) bool {
	if known, is := p.facts[key{of, reflect.TypeOf(f)}]; is {
		reflect.ValueOf(f).Elem().Set(reflect.ValueOf(known).Elem())
		return true
	}
	fn, is := of.(*types.Func)
	switch kind := reflect.ValueOf(f).Elem(); {
	case !is || fn.Pkg() == nil || fn.Pkg() == p.pkg:
		return false
	case kind.Type().String() == "printf.isWrapper" && fn.Pkg().Path() != "fmt" && formats(fn.Signature()): // of fmt, it knows all
		kind.FieldByName("Kind").SetInt(int64(printf.KindErrorf))
		return true
	}
	return fmt.Sprint(f) == "noReturn" && slices.Contains(neverReturns, fn.FullName())
}

// formats reports whether the last parameters of a function are "format string, args ...any".
func formats(s *types.Signature) bool {
	last := s.Params().Len() - 1
	return s.Variadic() && last > 0 && s.Params().At(last-1).Name() == "format" && types.Identical(s.Params().At(last).Type(), types.NewSlice(types.Universe.Lookup("any").Type()))
}
