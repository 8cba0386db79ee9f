// SPDX-License-Identifier: Apache-2.0

package capstan

import (
	"bytes"
	"fmt"
	"go/ast"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestTestsAreSmallAndDoNotSleep checks the rules for tests.
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

// TestWhatIsClaimedIsTested checks that documents name existing tests: each line on what
// always holds names one.
func TestWhatIsClaimedIsTested(t *testing.T) {
	declared := map[string]bool{}
	everyFile(t, func(s source) {
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(s.src, -1) {
			declared[string(m[1])] = true
		}
	})
	for _, page := range []string{"docs/book/security.md", "ARCHITECTURE.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`\bTest\w+`).FindAllString(string(text), -1)
		if len(names) == 0 {
			t.Errorf("%s names no test", page)
		}
		for _, name := range names {
			if !declared[name] {
				t.Errorf("%s: there is no %s", page, name)
			}
		}
		_, holds, _ := strings.Cut(string(text), "\n## What always holds\n")
		for line := range strings.Lines(holds) {
			if strings.HasPrefix(line, "- ") && !strings.Contains(line, "`Test") {
				t.Errorf("%s: no test is named for %s", page, line)
			}
		}
	}
}

// compiling matches a call that compiles a program. The tests of the book run alone,
// since they compile the programs that a page has its reader write.
var compiling = regexp.MustCompile(`exec\.Command(Context)?\([^\n]*"go", "(build|run|test|install|generate)"`)

// TestTestsCompileNothing: the Makefile builds the programs that tests run before the
// first one starts, since a compiler next to tests makes them fail.
func TestTestsCompileNothing(t *testing.T) {
	everyFile(t, func(s source) {
		if s.test && compiling.Match(s.src) {
			t.Errorf("%s compiles a program: have build/test-programs.sh build it, and use testenv.Program", s.file)
		}
	})
}

// TestTestsStartOnlyProgramsThatAreClosed: a test that writes a program and starts it
// fails at random next to one that starts another: atomicfile.WriteProgram has the reason.
func TestTestsStartOnlyProgramsThatAreClosed(t *testing.T) {
	everyFile(t, func(s source) {
		if !s.test {
			return
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 3 || string(s.src[call.Fun.Pos()-s.ast.FileStart:call.Fun.End()-s.ast.FileStart]) != "os.WriteFile" {
				return true
			}
			if mode, ok := call.Args[2].(*ast.BasicLit); ok && strings.ContainsAny(strings.TrimPrefix(mode.Value, "0o"), "1357") {
				t.Errorf("%s writes a program with mode %s: use atomicfile.WriteProgram", s.file, mode.Value)
			}
			return true
		})
	})
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
		virtual := bytes.Contains(body, []byte("synctest.Test(")) // time is simulated there
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && !virtual && fmt.Sprint(sel.X) == "time" && sel.Sel.Name == "Sleep" {
				t.Errorf("%s: func %s sleeps: wait for what it needs", s.file, fn.Name.Name)
			}
			return true
		})
	}
}
