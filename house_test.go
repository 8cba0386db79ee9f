// SPDX-License-Identifier: Apache-2.0

package capstan

import (
	"bytes"
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// houseLimits bound the measures of the whole module, with a hundredth of room for work
// in progress. They may only become lower: one that is more than a tenth above its
// measure fails, too.
var houseLimits = map[string]float64{
	"hand-written lines":                             195_860,
	"packages":                                       275,
	"lines of internal/access":                       10_920,
	"packages of internal/access":                    19,
	"package names used more than once":              9,
	"words of the list per 1,000 comment lines":      0,
	"branches of controllers in % of those and pure": 28.0,
	"packages of 150 lines with little test":         7,
}

// versionName is a package name that several groups have.
var versionName = regexp.MustCompile(`^v\d+((alpha|beta)\d+)?$`)

// sameNames are folders whose packages have the names of groups of the API, and of the
// libraries behind commands.
var sameNames = []string{"internal/admission", "internal/cli", "internal/controller", "internal/pure/conversion"}

// TestHouse measures hand-written code that is no test: "go test -run TestHouse -v ."
// prints the table.
func TestHouse(t *testing.T) {
	packages, names := map[string]bool{}, map[string]int{}
	branches := map[string]float64{}
	got := map[string]float64{}
	var comments, words float64
	walk(t, func(s source) {
		lines := float64(bytes.Count(s.src, []byte("\n")))
		access := hasPrefix(s.dir, []string{"internal/access"})
		got["hand-written lines"] += lines
		if access {
			got["lines of internal/access"] += lines
		}
		for _, group := range s.ast.Comments {
			for _, c := range group.List {
				comments += float64(1 + strings.Count(c.Text, "\n"))
			}
			words += float64(len(notPlain.FindAllString(plainEnough.ReplaceAllString(group.Text(), ""), -1)))
		}
		planner := hasPrefix(s.dir, []string{"internal/controller/*/*"})
		switch {
		case planner, hasPrefix(s.dir, []string{"internal/pure"}):
			branches["pure"] += float64(branchesOf(s.ast))
		case hasPrefix(s.dir, []string{"internal/controller"}):
			branches["controllers"] += float64(branchesOf(s.ast))
		}
		if name := s.ast.Name.Name; !packages[s.dir] {
			packages[s.dir] = true
			got["packages"]++
			if access {
				got["packages of internal/access"]++
			}
			if hasPrefix(s.dir, sameNames) && !planner || name == "main" || versionName.MatchString(name) {
				return
			}
			if names[name]++; names[name] == 2 {
				got["package names used more than once"]++
			}
		}
	})
	got["words of the list per 1,000 comment lines"] = 1000 * words / comments
	got["branches of controllers in % of those and pure"] = 100 * branches["controllers"] / (branches["controllers"] + branches["pure"])
	got["packages of 150 lines with little test"] = littleTest(t)
	for _, what := range slices.Sorted(maps.Keys(houseLimits)) {
		limit := houseLimits[what]
		t.Logf("%-48s %10.1f, at most %.1f", what, got[what], limit)
		switch {
		case got[what] > limit:
			t.Errorf("%s: %.1f, at most %.1f: see STYLE.md and the duplicates that the change adds", what, got[what], limit)
		case got[what] < 0.9*limit:
			t.Errorf("%s: %.1f: lower the limit of %.1f", what, got[what], limit)
		}
	}
}

// littleTest counts and logs the packages of at least 150 lines that have fewer than 0.6
// lines of test a line. Types of the API, measurements and examples are not counted.
func littleTest(t *testing.T) (packages float64) {
	lines, tests := map[string]int{}, map[string]int{}
	everyFile(t, func(s source) {
		switch n := bytes.Count(s.src, []byte("\n")); {
		case s.generated || s.peer || hasPrefix(s.dir, []string{"api", "bench"}):
		case s.test:
			tests[s.dir] += n
		default:
			lines[s.dir] += n
		}
	})
	for _, dir := range slices.Sorted(maps.Keys(lines)) {
		if n, ratio := lines[dir], float64(tests[dir])/float64(lines[dir]); n >= 150 && ratio < 0.6 {
			packages++
			t.Logf("%5d lines, %.2f lines of test a line: %s", n, ratio, dir)
		}
	}
	return packages
}

// branchesOf counts the places where a file decides.
func branchesOf(f *ast.File) (n int) {
	ast.Inspect(f, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt, *ast.CaseClause, *ast.CommClause:
			n++
		case *ast.BinaryExpr:
			if slices.Contains([]token.Token{token.LAND, token.LOR}, node.Op) {
				n++
			}
		}
		return true
	})
	return n
}
