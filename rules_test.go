// SPDX-License-Identifier: Apache-2.0

package capstan

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	maxFileLines      = 500
	maxFuncLines      = 80
	maxReconcileLines = 60
	maxParams         = 6
	maxPackageFiles   = 15
	maxTestFileLines  = 800
	maxTestFuncLines  = 150
	maxPackageLines   = 2500
)

// othersSignature matches the comment of a method whose signature another package
// defines.
var othersSignature = regexp.MustCompile(`^\w+ implements \w+\.\w+[.:]`)

// tooBig lists what exceeds a limit today, with the reason. It may only shrink.
var tooBig = map[string]string{
	"api/core/v1beta2: files of the package":   "types and conditions of eight kinds",
	"api/core/v1beta2: lines of the package":   "one group, one version: the wire decides how much there is",
	"internal/host/pods: lines of the package": "one sandbox from start to end: its parts share the state of Sandbox and Process",
}

func TestSizes(t *testing.T) {
	over, packages, files := map[string]bool{}, map[string]int{}, map[string]int{}
	limit := func(what string, n, max int) {
		if n <= max {
			return
		}
		over[what] = true
		if tooBig[what] == "" {
			t.Errorf("%s: %d, limit %d", what, n, max)
		}
	}
	walk(t, func(s source) {
		packages[s.dir] += lines(s.src)
		files[s.dir]++
		limit(s.file+": lines", lines(s.src), maxFileLines)
		for _, d := range s.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			max := maxFuncLines
			if fn.Name.Name == "Reconcile" {
				max = maxReconcileLines
			}
			what := fmt.Sprintf("%s: func %s", s.file, fn.Name.Name)
			limit(what+": lines", lines(s.src[fn.Pos()-s.ast.FileStart:fn.End()-s.ast.FileStart])+1, max)
			if fn.Recv == nil || !othersSignature.MatchString(fn.Doc.Text()) {
				limit(what+": parameters", fn.Type.Params.NumFields(), maxParams)
			}
		}
	})
	for dir, n := range packages {
		limit(dir+": lines of the package", n, maxPackageLines)
	}
	for dir, n := range files {
		limit(dir+": files of the package", n, maxPackageFiles)
	}
	for what := range tooBig {
		if !over[what] {
			t.Errorf("%s is small enough now: take it off the list", what)
		}
	}
}

// TestNoFileIsExempt refuses comments that silence a linter: correct code is written so
// that the linter accepts it, and a check that is wrong for this project is disabled for
// all code.
func TestNoFileIsExempt(t *testing.T) {
	everyFile(t, func(s source) {
		for n, line := range bytes.Split(s.src, []byte("\n")) {
			if exemption.Match(line) {
				t.Errorf("%s:%d: %s", s.file, n+1, bytes.TrimSpace(line))
			}
		}
	})
}

var exemption = regexp.MustCompile(`//\s*(nolint|lint:|revive:|#nosec)`)

var vagueNames = []string{"base", "common", "helper", "helpers", "misc", "pkg", "shared", "types", "util", "utils"}

func TestNames(t *testing.T) {
	walk(t, func(s source) {
		if slices.Contains(vagueNames, path.Base(s.dir)) || slices.Contains(vagueNames, s.ast.Name.Name) {
			t.Errorf("%s: say what package %s holds", s.file, s.ast.Name.Name)
		}
	})
}

// TestPackageNamesAreInTheGlossary has a new name of a package considered: it is the kind
// of a controller, or in docs/glossary.md.
func TestPackageNamesAreInTheGlossary(t *testing.T) {
	glossary, err := os.ReadFile("docs/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	walk(t, func(s source) {
		name := s.ast.Name.Name
		_, kind := os.Stat("internal/controller/" + name)
		if kind != nil && name != "main" && !versionName.MatchString(name) && !bytes.Contains(glossary, []byte("`"+name+"`")) {
			t.Errorf("%s: package %s is not in docs/glossary.md", s.file, name)
		}
	})
}

func TestDocs(t *testing.T) {
	chart, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	documented, tops := map[string]bool{}, map[string]bool{}
	walk(t, func(s source) {
		documented[s.dir] = documented[s.dir] || s.ast.Doc != nil
		tops[strings.SplitN(s.dir, "/", 2)[0]] = true
		if rest, ok := strings.CutPrefix(s.dir, "internal/"); ok {
			tops["internal/"+strings.SplitN(rest, "/", 2)[0]] = true
		}
	})
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s has no package comment", dir)
		}
	}
	for top := range tops {
		if !bytes.Contains(chart, []byte("`"+top+"/`")) {
			t.Errorf("ARCHITECTURE.md does not mention `%s/`", top)
		}
	}
	for _, named := range regexp.MustCompile("`([a-z0-9/._{},-]+/[a-z0-9/._{},-]*)`").FindAllSubmatch(chart, -1) {
		for _, p := range expand(string(named[1])) {
			if _, err := os.Stat(p); err != nil {
				t.Errorf("ARCHITECTURE.md names `%s`, which is not there", p)
			}
		}
	}
}

// TestEachKindIsInTheTable checks where ARCHITECTURE.md finds a kind: each controller has
// a row, and what the row names exists.
func TestEachKindIsInTheTable(t *testing.T) {
	chart, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(chart), "\n## Where a kind is\n")
	table, _, _ = strings.Cut(table, "\n## ")
	found := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| (\S.*) \| ([a-z]+) \|(.*)\|(.*)\|(.*)\|$`).FindAllStringSubmatch(table, -1)[1:] {
		controller := "internal/controller/" + row[2]
		found[controller] = true
		for i, folders := range [][]string{{controller, "internal/pure"}, {"internal/admission"}, {"docs/book"}} {
			for name := range strings.SplitSeq(strings.TrimSpace(row[3+i]), ", ") {
				exists := slices.ContainsFunc(folders, func(f string) bool {
					_, folder := os.Stat(path.Join(f, name))
					_, page := os.Stat(path.Join(f, name+".md"))
					return folder == nil || page == nil
				})
				if !exists {
					t.Errorf("row %s: %s is not in %v", row[1], name, folders)
				}
			}
		}
	}
	walk(t, func(s source) {
		if path.Dir(s.dir) == "internal/controller" && !found[s.dir] {
			t.Errorf("no row for %s", s.dir)
		}
	})
}

// TestTheStepsAreThoseOfTheCode checks the life of a Cluster: the steps are numbered,
// each names where it happens, and what it has in parentheses is reached from there.
func TestTheStepsAreThoseOfTheCode(t *testing.T) {
	chart, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, life, _ := strings.Cut(string(chart), "\n## The life of a Cluster\n")
	life, _, _ = strings.Cut(life, "\n## ")
	steps := regexp.MustCompile(`(?m)^(\d+)\. (.*)$`).FindAllStringSubmatch(life, -1)
	if len(steps) != 10 {
		t.Errorf("%d steps, want 10", len(steps))
	}
	graph := importGraph(t)
	place, aside := regexp.MustCompile("`([a-z]+/[a-z0-9/.]+)`"), regexp.MustCompile(`\([^)]*\)`)
	for i, step := range steps {
		if step[1] != fmt.Sprint(i+1) {
			t.Errorf("step %s is the %dth", step[1], i+1)
		}
		happens := place.FindAllStringSubmatch(aside.ReplaceAllString(step[2], ""), -1)
		if len(happens) == 0 {
			t.Errorf("step %s says nowhere where it happens", step[1])
		}
		reached := map[string]bool{}
		for _, h := range happens {
			follow(graph, h[1], reached)
		}
		for _, helpers := range aside.FindAllString(step[2], -1) {
			for _, helper := range place.FindAllStringSubmatch(helpers, -1) {
				if !reached[helper[1]] {
					t.Errorf("step %s: no place that it names reaches %s", step[1], helper[1])
				}
			}
		}
	}
}

// expand lists the paths that a path with {a,b} in it matches.
func expand(p string) []string {
	before, rest, several := strings.Cut(p, "{")
	if !several {
		return []string{p}
	}
	choices, after, _ := strings.Cut(rest, "}")
	var all []string
	for c := range strings.SplitSeq(choices, ",") {
		all = append(all, before+c+after)
	}
	return all
}

// TestGoMod keeps the module importable from outside: a required v0.0.0 works here,
// thanks to a replace, but in no other module.
func TestGoMod(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^\t(k8s\.io/\S+ v0\.0\.0)( |$)`).FindAllSubmatch(mod, -1) {
		t.Errorf("go.mod requires %s: require the real version", m[1])
	}
}

func lines(b []byte) int { return bytes.Count(b, []byte("\n")) }

// TestLimitsSayWhy requires a reason next to every chosen number: a limit, a timeout, a
// size. One comment may precede several in a row.
func TestLimitsSayWhy(t *testing.T) {
	walk(t, func(s source) {
		for _, d := range s.ast.Decls {
			group, ok := d.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			explained, end := group.Doc != nil, group.Pos()
			for _, spec := range group.Specs {
				v := spec.(*ast.ValueSpec)
				adjoining := bytes.Count(s.src[end-s.ast.FileStart:v.Pos()-s.ast.FileStart], []byte("\n")) < 2
				own := v.Doc != nil || v.Comment != nil
				explained, end = own || group.Doc != nil || explained && adjoining, v.End()
				if !explained && slices.ContainsFunc(v.Values, chosen) {
					t.Errorf("%s: say why %s is what it is", s.file, v.Names[0].Name)
				}
			}
		}
	})
}

// chosen reports whether a value has a number in it.
func chosen(value ast.Expr) (found bool) {
	ast.Inspect(value, func(n ast.Node) bool {
		l, ok := n.(*ast.BasicLit)
		found = found || ok && (l.Kind == token.INT || l.Kind == token.FLOAT)
		return true
	})
	return found
}
