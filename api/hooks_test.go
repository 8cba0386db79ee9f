// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/token"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHookTypesAgreeWithTheFacts(t *testing.T) {
	t.Parallel()
	want := hookFacts(t)
	got := map[string][]string{}
	for _, f := range parse(t, "hooks/v1alpha1") {
		for _, d := range f.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.TYPE {
				continue
			}
			for _, s := range decl.Specs {
				spec := s.(*ast.TypeSpec)
				got[spec.Name.Name] = describeType(t, spec)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("hook types (-facts +ours):\n%s", diff)
	}
}

func TestEveryHookHasAFunctionOfItsName(t *testing.T) {
	t.Parallel()
	functions := map[string]string{}
	for _, f := range parse(t, "hooks/v1alpha1") {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				functions[fn.Name.Name] = source(t, fn.Type)
			}
		}
	}
	for name := range hookFacts(t) {
		hook, ok := strings.CutSuffix(name, "Request")
		if !ok || hook == "Common" {
			continue
		}
		want := fmt.Sprintf("func(*%[1]sRequest, *%[1]sResponse)", hook)
		if functions[hook] != want {
			t.Errorf("%s is %q, want %q", hook, functions[hook], want)
		}
	}
}

// hookFacts parses the part of the facts that is about the hooks: for each
// type what it is, in one line, or its fields, one a line and sorted.
func hookFacts(t *testing.T) map[string][]string {
	t.Helper()
	data, err := os.ReadFile("testdata/facts/runtime_hooks_types.txt")
	if err != nil {
		t.Fatal(err)
	}
	all, section, typ := map[string][]string{}, "", ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\n")
		if title, ok := strings.CutPrefix(line, "# "); ok {
			section = title
			continue
		}
		if section != "api/runtime/hooks/v1alpha1" {
			continue
		}
		if field, ok := strings.CutPrefix(line, "  "); ok {
			all[typ] = append(all[typ], field)
			continue
		}
		name, kind, ok := strings.Cut(line, ":")
		if !ok {
			t.Fatalf("facts: %q is no type", line)
		}
		typ = name
		all[typ] = []string{}
		if kind = strings.TrimSpace(kind); kind != "" {
			all[typ] = append(all[typ], kind)
		}
	}
	for _, lines := range all {
		slices.Sort(lines)
	}
	if len(all) == 0 {
		t.Fatal("facts have no hook types")
	}
	return all
}

// describeType prints a type as the facts do.
func describeType(t *testing.T, spec *ast.TypeSpec) []string {
	t.Helper()
	switch typ := spec.Type.(type) {
	case *ast.StructType:
		lines := []string{}
		for _, f := range typ.Fields.List {
			name := "(embedded)"
			if len(f.Names) > 0 {
				name = f.Names[0].Name
			}
			tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json")
			lines = append(lines, fmt.Sprintf("%s %s json=%s", name, source(t, f.Type), tag))
		}
		slices.Sort(lines)
		return lines
	case *ast.InterfaceType:
		var parts []string
		for _, m := range typ.Methods.List {
			text := source(t, m.Type)
			if len(m.Names) > 0 {
				text = m.Names[0].Name + strings.TrimPrefix(text, "func")
			}
			parts = append(parts, text)
		}
		return []string{"interface{" + strings.Join(parts, "; ") + "}"}
	default:
		return []string{source(t, spec.Type)}
	}
}

func source(t *testing.T, node ast.Node) string {
	t.Helper()
	b := &bytes.Buffer{}
	if err := format.Node(b, token.NewFileSet(), node); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
