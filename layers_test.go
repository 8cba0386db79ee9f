// SPDX-License-Identifier: Apache-2.0

package capstan

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/capstan-dev/capstan/"

// layers is policy. A package belongs to the first line whose prefix it has,
// and may import packages of the layers named in may. Do not change a line to
// make a build pass; move the code.
var layers = []layer{
	{name: "api", dirs: []string{"api/"}, may: []string{"api"}},
	{name: "leaf", dirs: []string{"contract", "conditions", "extension", "manifests", "charts", "internal/kit/"}, may: []string{"api", "leaf"}},
	{name: "pure", dirs: []string{"internal/pure/", "clusterctl/causes", "clusterctl/tree", "clusterctl/move/plan"}, may: []string{"api", "leaf", "pure"}, pure: true},
	{name: "planner", dirs: []string{"internal/controller/*/*"}, may: []string{"api", "leaf", "pure", "planner"}, pure: true},
	{name: "access", dirs: []string{"internal/access/", "internal/deps", "internal/mgmtplane"}, may: []string{"api", "leaf", "pure", "planner", "access"}},
	{name: "simulated", dirs: []string{"internal/simulated", "simulated"}, may: []string{"api", "leaf", "pure", "access", "simulated"}},
	{name: "host", dirs: []string{"internal/host/"}, may: []string{"api", "leaf", "pure", "access", "host"}},
	{name: "controller", dirs: []string{"internal/controller/", "internal/admission/"}, may: []string{"api", "leaf", "pure", "planner", "access"}},
	{name: "library", dirs: []string{"clusterctl", "conformance"}, may: []string{"api", "leaf", "pure", "planner", "access", "library"}},
	{name: "simulation", dirs: []string{"internal/sim", "internal/app/controllers"}, may: []string{"api", "leaf", "pure", "planner", "access", "controller", "simulation"}},
	{name: "app", dirs: []string{"internal/app", "internal/cli"}, may: []string{"api", "leaf", "pure", "planner", "access", "simulated", "host", "controller", "library", "simulation", "app"}},
	{name: "author", dirs: []string{"cmd/sample-extension"}, may: []string{"api", "leaf"}},
	{name: "cmd", dirs: []string{"cmd/", "build/release", "build/lint"}, may: []string{"host", "app"}},
	{name: "build", dirs: []string{"build/image"}, may: []string{"host"}},
	{name: "testing", dirs: []string{"bench", "internal/testenv", "internal/e2e", "internal/builder"}, may: []string{"api", "leaf", "pure", "planner", "access", "simulated", "host", "controller", "library", "simulation", "app", "testing"}},
}

// only lists the packages that may import something exclusively: from outside, or a
// version of the API that is only converted.
var only = map[string][]string{
	module + "api/addons/v1beta1":       {"internal/pure/conversion"},
	module + "api/bootstrap/v1beta1":    {"api", "internal/pure/conversion"},
	module + "api/controlplane/v1beta1": {"internal/pure/conversion"},
	module + "api/core/v1beta1":         {"api", "internal/pure/conversion"},
	module + "api/ipam/v1alpha1":        {"internal/pure/conversion"},
	module + "api/ipam/v1beta1":         {"api", "internal/pure/conversion"},
	module + "api/runtime/v1alpha1":     {"internal/pure/conversion"},

	// Templates of users have a budget in gotemplate; the others are the project's own.
	"text/template": {"internal/pure/gotemplate", "internal/app/chart", "build/release", "bench/providers"},
	"html/template": {},

	"k8s.io/kubernetes":      {"internal/mgmtplane"},
	"go.etcd.io/etcd/server": {"internal/mgmtplane"},
	"github.com/spf13/cobra": {"internal/cli", "cmd/"},
}

// impure may not be reached by a pure layer: without them a package cannot
// wait, call, log, guess or read a file.
var impure = []string{"context", "crypto/rand", "database", "expvar", "io/fs", "log", "math/rand", "net", "os", "plugin", "syscall", "testing", "unsafe"}

// values are the packages from outside that a pure layer may reach: types, and functions
// of values. They are listed individually because their own imports are no criterion: fmt
// reaches os, and the types of Kubernetes are in packages that can log.
var values = []string{
	"github.com/Masterminds/sprig/v3",
	"github.com/blang/semver/v4",
	"github.com/coreos/go-systemd/v22/unit",
	"github.com/coreos/ignition/v2/config/v3_3",
	"github.com/evanphx/json-patch/v5",
	"github.com/gobuffalo/flect",
	"go.yaml.in/yaml/v3",
	"k8s.io/api",
	"k8s.io/apiextensions-apiserver/pkg/apis",
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema",
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation",
	"k8s.io/apimachinery/pkg/api/equality",
	"k8s.io/apimachinery/pkg/api/validation",
	"k8s.io/apimachinery/pkg/apis/meta/v1",
	"k8s.io/apimachinery/pkg/labels",
	"k8s.io/apimachinery/pkg/runtime",
	"k8s.io/apimachinery/pkg/types",
	"k8s.io/apimachinery/pkg/util/intstr",
	"k8s.io/apimachinery/pkg/util/json",
	"k8s.io/apimachinery/pkg/util/validation",
	"k8s.io/apimachinery/pkg/util/version",
	"k8s.io/apimachinery/pkg/util/yaml",
	"k8s.io/apimachinery/pkg/version",
	"k8s.io/apiserver/pkg/apis/cel",
	"k8s.io/kube-openapi/pkg/schemaconv",
	"k8s.io/kube-openapi/pkg/validation/spec",
	"k8s.io/utils/ptr",
	"sigs.k8s.io/structured-merge-diff/v6",
	"sigs.k8s.io/yaml",
}

// worldly are the functions of otherwise pure packages that read the time or use the
// terminal.
var worldly = map[string][]string{
	"fmt":                                  {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
	"k8s.io/apimachinery/pkg/apis/meta/v1": {"Now", "NowMicro"},
	"time":                                 {"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"},
}

type layer struct {
	name      string
	dirs, may []string
	pure      bool
}

// TestLayersAreThere keeps the table correct: what it names exists.
func TestLayersAreThere(t *testing.T) {
	used, there, names := map[string]bool{}, map[string]bool{}, map[string]bool{}
	walk(t, func(s source) {
		if l := layerOf(s.dir); l != nil {
			used[l.dirs[slices.IndexFunc(l.dirs, func(d string) bool { return hasPrefix(s.dir, []string{d}) })]] = true
		}
		for _, where := range only {
			for _, d := range where {
				there[d] = there[d] || hasPrefix(s.dir, []string{d})
			}
		}
	})
	for _, l := range layers {
		names[l.name] = true
	}
	for _, l := range layers {
		for _, d := range l.dirs {
			if !used[d] {
				t.Errorf("layer %s names %s, which holds no package of that layer", l.name, d)
			}
		}
		for _, other := range l.may {
			if !names[other] {
				t.Errorf("layer %s may import %s, which is no layer", l.name, other)
			}
		}
	}
	for pkg, where := range only {
		for _, d := range where {
			if !there[d] {
				t.Errorf("%s alone may import %s, and is not there", d, pkg)
			}
		}
	}
}

func TestLayers(t *testing.T) {
	everyFile(t, func(s source) {
		if s.dir == "." || s.peer {
			return
		}
		l := layerOf(s.dir)
		if l == nil {
			t.Errorf("%s is in no layer", s.dir)
			return
		}
		for _, imp := range imports(s) {
			if inside, ok := strings.CutPrefix(imp, module); ok && !mayImport(l, s, inside) {
				t.Errorf("%s (%s) must not import %s", s.file, l.name, inside)
			}
			for pkg, where := range only {
				if hasPrefix(imp, []string{pkg}) && !hasPrefix(s.dir, where) && !(s.test && l.name == "testing") {
					t.Errorf("%s must not import %s: only %v may", s.file, imp, where)
				}
			}
		}
	})
}

// mayImport reports whether a file of a layer may import a package of ours. A test may
// import what its package may, the package itself, what tests share, the simulated
// counterpart on which a client is tested, and the planners that values are for.
func mayImport(l *layer, s source, pkg string) bool {
	to := layerOf(pkg)
	if to != nil && to.name == "planner" && hasPrefix(s.dir, []string{"internal/controller"}) && !hasPrefix(s.dir, []string{path.Dir(pkg)}) {
		return false // what two controllers share is in internal/pure
	}
	return to != nil && (slices.Contains(l.may, to.name) || s.test && (pkg == s.dir || l.name == "simulation" || slices.Contains([]string{"testing", "simulated", "simulation", "planner"}, to.name)))
}

func TestPurity(t *testing.T) {
	files := map[string][]source{}
	everyFile(t, func(s source) {
		if !s.test {
			files[s.dir] = append(files[s.dir], s)
		}
	})
	for dir := range files {
		if l := layerOf(dir); l != nil && l.pure {
			for _, chain := range impurities(files, dir, dir, map[string]bool{}) {
				t.Errorf("%s is pure, yet %s", dir, chain)
			}
		}
	}
}

// impurities lists how dir reaches impure packages, including through packages of this
// module.
func impurities(files map[string][]source, dir, chain string, seen map[string]bool) (found []string) {
	if seen[dir] {
		return nil
	}
	seen[dir] = true
	for _, s := range files[dir] {
		for _, imp := range imports(s) {
			if inside, ok := strings.CutPrefix(imp, module); ok {
				found = append(found, impurities(files, inside, chain+" -> "+inside, seen)...)
				continue
			}
			outside := strings.Contains(strings.Split(imp, "/")[0], ".")
			if outside && !hasPrefix(imp, values) || !outside && hasPrefix(imp, impure) {
				found = append(found, chain+" -> "+imp)
			}
		}
		for _, call := range uses(s, worldly) {
			found = append(found, chain+" calls "+call+": take it as a parameter")
		}
	}
	return found
}

// TestNothingTicks keeps tickers and polls out of controllers and their dependencies:
// watches trigger reconciles, and timers do where a deadline exists.
func TestNothingTicks(t *testing.T) {
	ticks := map[string][]string{
		"k8s.io/apimachinery/pkg/util/wait": {
			"BackoffUntil", "Forever", "JitterUntil", "JitterUntilWithContext", "NonSlidingUntil", "PollImmediateUntil",
			"PollUntilContextCancel", "PollUntilContextTimeout", "Until", "UntilWithContext",
		},
		"time": {"NewTicker", "Sleep", "Tick"},
	}
	graph, reached := importGraph(t), map[string]bool{}
	for dir := range graph {
		if hasPrefix(dir, []string{"internal/controller", "internal/host/podagent"}) {
			follow(graph, dir, reached)
		}
	}
	walk(t, func(s source) {
		if !reached[s.dir] {
			return
		}
		for _, call := range uses(s, ticks) {
			t.Errorf("%s calls %s: watch for what it needs", s.file, call)
		}
	})
}

// TestStatusIsWrittenInOnePlace leaves the status of objects to the commit of a
// reconcile, which writes it once, if it changed.
func TestStatusIsWrittenInOnePlace(t *testing.T) {
	walk(t, func(s source) {
		if l := layerOf(s.dir); l == nil || l.name != "controller" {
			return
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && slices.Contains([]string{"Apply", "Create", "Patch", "Update"}, sel.Sel.Name) {
				if call, ok := sel.X.(*ast.CallExpr); ok {
					if of, ok := call.Fun.(*ast.SelectorExpr); ok && of.Sel.Name == "Status" {
						t.Errorf("%s writes a status: let package patch do it", s.file)
					}
				}
			}
			return true
		})
	})
}

// uses lists which of some functions, by package, a file uses.
func uses(s source, of map[string][]string) (found []string) {
	for _, spec := range s.ast.Imports {
		imp := strings.Trim(spec.Path.Value, `"`)
		name := path.Base(imp)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && slices.Contains(of[imp], sel.Sel.Name) {
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == name {
					found = append(found, name+"."+sel.Sel.Name)
				}
			}
			return true
		})
	}
	return found
}

// importGraph maps each package of ours to the packages of ours that it imports.
func importGraph(t *testing.T) map[string][]string {
	t.Helper()
	graph := map[string][]string{}
	walk(t, func(s source) {
		for _, imp := range imports(s) {
			if inside, ok := strings.CutPrefix(imp, module); ok {
				graph[s.dir] = append(graph[s.dir], inside)
			}
		}
	})
	return graph
}

// follow adds to reached dir and its imports, directly or indirectly.
func follow(graph map[string][]string, dir string, reached map[string]bool) {
	if reached[dir] {
		return
	}
	reached[dir] = true
	for _, to := range graph[dir] {
		follow(graph, to, reached)
	}
}

func imports(s source) (paths []string) {
	for _, spec := range s.ast.Imports {
		paths = append(paths, strings.Trim(spec.Path.Value, `"`))
	}
	return paths
}

func layerOf(dir string) *layer {
	for i, l := range layers {
		if hasPrefix(dir, l.dirs) {
			return &layers[i]
		}
	}
	return nil
}

// hasPrefix reports whether s is one of the prefixes or is below one. A * in a prefix
// matches any folder.
func hasPrefix(s string, prefixes []string) bool {
	have := strings.Split(s, "/")
	return slices.ContainsFunc(prefixes, func(p string) bool {
		want := strings.Split(strings.TrimSuffix(p, "/"), "/")
		return len(want) <= len(have) && slices.EqualFunc(want, have[:len(want)], func(w, h string) bool { return w == h || w == "*" })
	})
}
