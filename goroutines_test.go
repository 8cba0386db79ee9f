// SPDX-License-Identifier: Apache-2.0

package capstan

import (
	"fmt"
	"go/ast"
	"strings"
	"testing"
)

// bare are the folders, and the functions of a folder, that may start a goroutine
// without recovery, with the reason.
var bare = map[string]string{
	"internal/host/containerproc":                  "is a process of its own in a container, and imports the standard library alone",
	"internal/host/containers/supervisor":          "is a process of its own in a machine, and imports the standard library alone",
	"internal/host/pods/holder":                    "is a process of its own in a Pod, which ends with it",
	"internal/mgmtplane/election":                  "handles no object, and must not survive: a plane that cannot prove that it leads has to end",
	"internal/kit/gctune":                          "sets the garbage collector and handles no object; recovery would make it import Kubernetes",
	"internal/host/podagent: l.part":               "recovers by recovery.Call, and evicts the Pod",
	"internal/access/extensions: cancel":           "cancels a context, and runs nothing else",
	"internal/access/extensions/transport: cancel": "cancels a context, and runs nothing else",
}

// TestGoroutinesRecover: in internal/, a panic in what starts a goroutine, or is called
// by a timer, does not end the process.
func TestGoroutinesRecover(t *testing.T) {
	used := map[string]bool{}
	walk(t, func(s source) {
		if !hasPrefix(s.dir, []string{"internal"}) {
			return
		}
		for _, f := range goroutines(s.ast) {
			if recovers(f) {
				continue
			}
			name := text(f)
			if call, ok := f.(*ast.CallExpr); ok {
				name = text(call.Fun)
			}
			exception := s.dir
			if bare[exception] == "" {
				exception += ": " + name
			}
			used[exception] = true
			if bare[exception] == "" {
				t.Errorf("%s: a goroutine does not recover: start it by recovery.Func of internal/kit/recovery, or have its only statement use the result of recovery.Call", s.file)
			}
		}
	})
	for exception := range bare {
		if !used[exception] {
			t.Errorf("exception %q is not needed", exception)
		}
	}
}

// recovers reports whether a function is a call of recovery.Func, or a literal that does
// one thing, with the result of recovery.Call: sends, stores, returns or tests it.
func recovers(f ast.Expr) bool {
	literal, ok := f.(*ast.FuncLit)
	if !ok {
		return isCall(f, "recovery.Func")
	}
	if len(literal.Body.List) != 1 {
		return false
	}
	first := literal.Body.List[0]
	if s, ok := first.(*ast.IfStmt); ok {
		first = s.Init
	}
	switch s := first.(type) {
	case *ast.SendStmt:
		return isCall(s.Value, "recovery.Call")
	case *ast.AssignStmt:
		return isCall(s.Rhs[0], "recovery.Call")
	case *ast.ReturnStmt:
		return len(s.Results) == 1 && isCall(s.Results[0], "recovery.Call")
	}
	return false
}

func isCall(e ast.Expr, name string) bool {
	call, ok := e.(*ast.CallExpr)
	return ok && text(call.Fun) == name
}

// goroutines returns the functions that a file runs in their own goroutines: those of go
// statements, and those given to methods and functions called Go or AfterFunc.
func goroutines(file *ast.File) (all []ast.Expr) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			all = append(all, n.Call.Fun)
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && (sel.Sel.Name == "Go" || sel.Sel.Name == "AfterFunc") && len(n.Args) > 0 {
				all = append(all, n.Args[len(n.Args)-1])
			}
		}
		return true
	})
	return all
}

// text is the source of a name such as pkg.Func.
func text(e ast.Expr) string {
	if sel, ok := e.(*ast.SelectorExpr); ok {
		return fmt.Sprintf("%s.%s", text(sel.X), sel.Sel.Name)
	}
	return strings.TrimSpace(fmt.Sprint(e))
}

// TestGoroutinesReleaseWaiters: a goroutine that is recovered closes in a defer statement
// what others wait for. It sends in one, or closes the channel in one, unless all that
// comes before is recovered: after a panic, no other goroutine waits forever. What a case
// of a select closes has no panic before it.
func TestGoroutinesReleaseWaiters(t *testing.T) {
	walk(t, func(s source) {
		if s.test || !hasPrefix(s.dir, []string{"internal"}) {
			return
		}
		for _, f := range recovered(s.ast) {
			safe, closed := isSafeCall(f.Body.List[0]), map[string]bool{}
			for _, s := range f.Body.List {
				if d, ok := s.(*ast.DeferStmt); ok && isCall(d.Call, "close") {
					closed[text(d.Call.Args[0])] = true
				}
			}
			ast.Inspect(f.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.DeferStmt, *ast.CommClause:
					return false
				case *ast.SendStmt:
					if !safe && !closed[text(n.Chan)] && n != f.Body.List[0] && !isCall(n.Value, "recovery.Call") {
						t.Errorf("%s: a recovered goroutine sends to %s: send in a defer statement, or call what can panic by recovery.Call", s.file, text(n.Chan))
					}
				case *ast.CallExpr:
					if isCall(n, "close") {
						t.Errorf("%s: a recovered goroutine closes %s: do so in a defer statement", s.file, text(n.Args[0]))
					}
				}
				return true
			})
		}
	})
}

// recovered returns the literals that are given to recovery.Func, and to methods that
// start functions through it.
func recovered(file *ast.File) (all []*ast.FuncLit) {
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		name := text(call.Fun)
		if f, ok := call.Args[len(call.Args)-1].(*ast.FuncLit); ok && len(f.Body.List) > 0 && (name == "recovery.Func" || strings.HasSuffix(name, ".Start") || strings.HasSuffix(name, ".startVital")) {
			all = append(all, f)
		}
		return true
	})
	return all
}

// isSafeCall reports whether a statement stores the result of recovery.Call.
func isSafeCall(s ast.Stmt) bool {
	a, ok := s.(*ast.AssignStmt)
	return ok && isCall(a.Rhs[0], "recovery.Call")
}

// TestPanicsAreRecoveredInOnePlace: other uses of recover hide a panic, or its stack.
func TestPanicsAreRecoveredInOnePlace(t *testing.T) {
	allowed := map[string]string{
		"internal/kit/recovery/recovery.go":    "is the place",
		"internal/mgmtplane/etcd.go":           "etcd panics at a store that is damaged: the text is for the user",
		"internal/mgmtplane/backup/restore.go": "as in etcd.go",
		"extension/catalog/convert.go":         "public, and does not import internal packages",
		"extension/server/call.go":             "public, and does not import internal packages",
		"extension/mutation/walk.go":           "public, and does not import internal packages",
	}
	walk(t, func(s source) {
		ast.Inspect(s.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if ok && text(call.Fun) == "recover" && len(call.Args) == 0 {
				if allowed[s.file] == "" {
					t.Errorf("%s recovers: use recovery.Call of internal/kit/recovery", s.file)
				}
				allowed[s.file] = "used"
			}
			return true
		})
	})
	for file, why := range allowed {
		if why != "used" {
			t.Errorf("%s does not recover: remove it from the list", file)
		}
	}
}
