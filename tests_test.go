// SPDX-License-Identifier: Apache-2.0

package capstan

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTestsAreSmallAndDoNotSleep holds tests to rules of their own.
func TestTestsAreSmallAndDoNotSleep(t *testing.T) {
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || (p != "." && strings.HasPrefix(d.Name(), "."))) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(p, "_test.go") {
			return nil
		}
		src, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(fset, p, src, 0)
		if err != nil {
			return err
		}
		if n := lines(src); n > maxTestFileLines {
			t.Errorf("%s: %d lines, limit %d", p, n, maxTestFileLines)
		}
		checkTests(t, p, f, src)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestThePageOnSecurityNamesTests holds what it says to what is shown.
func TestThePageOnSecurityNamesTests(t *testing.T) {
	page, err := os.ReadFile("docs/book/security.md")
	if err != nil {
		t.Fatal(err)
	}
	missing := map[string]bool{}
	for _, name := range regexp.MustCompile(`\bTest\w+`).FindAllString(string(page), -1) {
		missing[name] = true
	}
	if len(missing) == 0 {
		t.Error("it names no test")
	}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err = filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(p, "_test.go") {
			return err
		}
		src, err := os.ReadFile(p)
		for _, m := range declared.FindAllSubmatch(src, -1) {
			delete(missing, string(m[1]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range missing {
		t.Errorf("there is no %s", name)
	}
}

func checkTests(t *testing.T, file string, f *ast.File, src []byte) {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		if n := lines(src[fn.Pos()-f.FileStart:fn.End()-f.FileStart]) + 1; n > maxTestFuncLines {
			t.Errorf("%s: func %s: %d lines, limit %d", file, fn.Name.Name, n, maxTestFuncLines)
		}
		virtual := strings.Contains(string(src[fn.Pos()-f.FileStart:fn.End()-f.FileStart]), "synctest.Test(") // time is pretended there
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && !virtual && fmt.Sprint(s.X) == "time" && s.Sel.Name == "Sleep" {
				t.Errorf("%s: func %s sleeps: wait for what it needs", file, fn.Name.Name)
			}
			return true
		})
	}
}
