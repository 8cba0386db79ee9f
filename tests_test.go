// SPDX-License-Identifier: Apache-2.0

package capstan

import (
	"bytes"
	"fmt"
	"go/ast"
	"os"
	"regexp"
	"testing"
)

// TestTestsAreSmallAndDoNotSleep holds tests to rules of their own.
func TestTestsAreSmallAndDoNotSleep(t *testing.T) {
	everyFile(t, func(s source) {
		if !s.test {
			return
		}
		if n := lines(s.src); n > maxTestFileLines {
			t.Errorf("%s: %d lines, limit %d", s.file, n, maxTestFileLines)
		}
		checkTests(t, s)
	})
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
	everyFile(t, func(s source) {
		for _, m := range declared.FindAllSubmatch(s.src, -1) {
			delete(missing, string(m[1]))
		}
	})
	for name := range missing {
		t.Errorf("there is no %s", name)
	}
}

func checkTests(t *testing.T, s source) {
	for _, d := range s.ast.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		body := s.src[fn.Pos()-s.ast.FileStart : fn.End()-s.ast.FileStart]
		if n := lines(body) + 1; n > maxTestFuncLines {
			t.Errorf("%s: func %s: %d lines, limit %d", s.file, fn.Name.Name, n, maxTestFuncLines)
		}
		virtual := bytes.Contains(body, []byte("synctest.Test(")) // time is pretended there
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && !virtual && fmt.Sprint(sel.X) == "time" && sel.Sel.Name == "Sleep" {
				t.Errorf("%s: func %s sleeps: wait for what it needs", s.file, fn.Name.Name)
			}
			return true
		})
	}
}
