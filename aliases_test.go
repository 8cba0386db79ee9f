// SPDX-License-Identifier: Apache-2.0

package capstan

import (
	"cmp"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestImportAliases gives each package one name: its own or an alias, everywhere
// the same. A package that is used under its own name has its alias only in files
// where another identifier has that name.
func TestImportAliases(t *testing.T) {
	aliases, plain := map[string]map[string][]source{}, map[string]bool{}
	everyFile(t, func(s source) {
		if s.generated || s.peer {
			return
		}
		for _, spec := range s.ast.Imports {
			imp := strings.Trim(spec.Path.Value, `"`)
			switch {
			case spec.Name == nil && apiVersion.MatchString(imp):
				t.Errorf("%s: import %s by an alias that says its group", s.file, imp)
			case spec.Name == nil:
				plain[imp] = true
			case spec.Name.Name != "_":
				if aliases[imp] == nil {
					aliases[imp] = map[string][]source{}
				}
				aliases[imp][spec.Name.Name] = append(aliases[imp][spec.Name.Name], s)
			}
		}
	})
	for imp, by := range aliases {
		most := ""
		for alias, files := range by {
			if most == "" || cmp.Or(cmp.Compare(len(files), len(by[most])), cmp.Compare(alias, most)) > 0 {
				most = alias
			}
		}
		for alias, files := range by {
			for _, s := range files {
				switch {
				case alias != most:
					t.Errorf("%s imports %s as %s: others call it %s", s.file, imp, alias, most)
				case plain[imp] && !otherwiseNamed(s, imp):
					t.Errorf("%s imports %s as %s: others call it by its own name", s.file, imp, alias)
				}
			}
		}
	}
}

// apiVersion matches packages whose own name is only a version.
var apiVersion = regexp.MustCompile(`/apis?/.+/v\d+((alpha|beta)\d+)?$`)

var majorVersion = regexp.MustCompile(`/v\d+$`)

// otherwiseNamed reports whether a file uses the name of a package for anything
// else: itself, another package, a variable.
func otherwiseNamed(s source, imp string) bool {
	own := path.Base(majorVersion.ReplaceAllString(imp, ""))
	if strings.TrimSuffix(s.ast.Name.Name, "_test") == own {
		return true
	}
	used := slices.ContainsFunc(s.ast.Imports, func(spec *ast.ImportSpec) bool {
		other := strings.Trim(spec.Path.Value, `"`)
		name := path.Base(majorVersion.ReplaceAllString(other, ""))
		if spec.Name != nil {
			name = spec.Name.Name
		}
		return other != imp && name == own
	})
	ast.Inspect(s.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field: // of a function, too
			used = used || named(n.Names, own)
		case *ast.ValueSpec:
			used = used || named(n.Names, own)
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				if id, ok := e.(*ast.Ident); ok {
					used = used || id.Name == own
				}
			}
		}
		return !used
	})
	return used
}

func named(ids []*ast.Ident, name string) bool {
	return slices.ContainsFunc(ids, func(id *ast.Ident) bool { return id.Name == name })
}
