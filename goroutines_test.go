// SPDX-License-Identifier: Apache-2.0

package capstan

import (
	"fmt"
	"go/ast"
	"strings"
	"testing"
)

// recovering are the folders in which a goroutine handles users' objects, and what those
// use. There a panic must not end the process.
var recovering = []string{"internal/simulated", "internal/controller/runner", "internal/app/podrunner", "internal/app/plane", "internal/kit"}

// bare are the functions that may start a goroutine without recovery.Func, with the
// reason.
var bare = map[string]string{
	"internal/controller/runner: l.part": "recovers by recovery.Call, and evicts the Pod",
	"internal/kit/heap: ":                "sets the garbage collector and handles no object; recovery would make it import Kubernetes",
}

// TestGoroutinesRecover: what starts a goroutine, or is called by a timer, is a call of
// recovery.Func.
func TestGoroutinesRecover(t *testing.T) {
	used := map[string]bool{}
	walk(t, func(s source) {
		if !hasPrefix(s.dir, recovering) {
			return
		}
		for _, f := range goroutines(s.ast) {
			name := ""
			if call, ok := f.(*ast.CallExpr); ok {
				name = text(call.Fun)
			}
			exception := s.dir + ": " + name
			used[exception] = true
			if name != "recovery.Func" && bare[exception] == "" {
				t.Errorf("%s: a goroutine does not recover: start it by recovery.Func of internal/kit/recovery", s.file)
			}
		}
	})
	for exception := range bare {
		if !used[exception] {
			t.Errorf("exception %q is not needed", exception)
		}
	}
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
