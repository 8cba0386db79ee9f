// SPDX-License-Identifier: Apache-2.0

package capstan

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// source is a Go file of the module.
type source struct {
	dir, file       string
	src             []byte
	ast             *ast.File
	test, generated bool
	peer            bool // of a module that compares with upstream
}

// sources reads the module once, for all the rules about it.
var sources = sync.OnceValues(func() (all []source, err error) {
	fset := token.NewFileSet()
	err = filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		// The examples are separate modules, for users to copy.
		if d.IsDir() && (d.Name() == "testdata" || p == "examples" || (p != "." && strings.HasPrefix(d.Name(), "."))) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		src, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(fset, p, src, parser.ParseComments)
		all = append(all, source{
			dir: path.Dir(p), file: p, src: src, ast: f,
			test: strings.HasSuffix(p, "_test.go"), generated: strings.HasPrefix(d.Name(), "zz_generated"),
			peer: strings.HasPrefix(p, "peer/"),
		})
		return err
	})
	return all, err
})

// everyFile calls visit for every Go file of the module.
func everyFile(t *testing.T, visit func(s source)) {
	t.Helper()
	all, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		visit(s)
	}
}

// walk calls visit for every Go file of the module that is not a test, not
// generated and not at the root; peer has separate modules.
func walk(t *testing.T, visit func(s source)) {
	t.Helper()
	everyFile(t, func(s source) {
		if !s.test && !s.generated && s.dir != "." && !s.peer {
			visit(s)
		}
	})
}
