// SPDX-License-Identifier: Apache-2.0

package capstan

import (
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

// reach lists what packages must not reach, directly or indirectly.
var reach = map[string]struct {
	public    bool     // all packages that others may import
	from      []string // and these
	forbidden []string
}{
	// Programs that import our types or our libraries must not link an API server and
	// etcd; only the program that runs them does.
	"an API server": {
		public:    true,
		from:      []string{"./internal/cli/...", "./internal/app/manager/...", "./cmd/capstan-manager"},
		forbidden: []string{"k8s.io/kubernetes", "go.etcd.io/etcd/server/v3"},
	},
	// Packages with types only, and the programs of extension authors, are light.
	"a client": {
		from:      []string{"./api/...", "./contract/...", "./conditions/...", "./extension/...", "./cmd/sample-extension"},
		forbidden: []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime", "k8s.io/apiserver"},
	},
	// testing adds flags to a program, and ties functions with a *testing.T to go test:
	// libraries accept an interface, or return results.
	"testing": {public: true, from: []string{"./cmd/sample-extension"}, forbidden: []string{"testing"}},
	// Core controllers know providers only by contract, regardless of their author.
	"a provider": {
		from:      []string{"./internal/controller/cluster", "./internal/controller/machine", "./internal/controller/machineset", "./internal/controller/machinedeployment", "./internal/controller/machinehealthcheck", "./internal/controller/machinepool"},
		forbidden: []string{module + "api/bootstrap", module + "api/controlplane", module + "api/infrastructure"},
	},
	// go-containerregistry fetches images and releases.
	"a second registry client": {from: []string{"./..."}, forbidden: []string{"oras.land", "github.com/containerd/containerd"}},
	// peer/ is a separate module for comparison with upstream.
	"upstream": {from: []string{"./..."}, forbidden: []string{"sigs.k8s.io/cluster-api"}},
}

func TestWhatMustNotBeReached(t *testing.T) {
	for name, r := range reach {
		t.Run(name, func(t *testing.T) {
			from := r.from
			if r.public {
				for _, dir := range publicDirs(t) {
					from = append(from, "./"+dir)
				}
			}
			for pkg, deps := range deps(t, from) {
				for _, dep := range deps {
					if hasPrefix(dep, r.forbidden) {
						t.Errorf("%s reaches %s", pkg, dep)
					}
				}
			}
		})
	}
}

// light are packages that reach only the standard library, the kernel, and packages of
// ours that do the same. A shim is this program, which branches off before it is
// initialized: each container pays for everything that precedes it.
var light = []string{"./internal/host/containers/supervisor", "./internal/host/pods/holder"}

func TestWhatIsLightReachesTheStandardLibraryAlone(t *testing.T) {
	for pkg, deps := range deps(t, light) {
		for _, dep := range deps {
			first, _, _ := strings.Cut(dep, "/")
			if strings.Contains(first, ".") && !hasPrefix(dep, []string{module, "golang.org/x/sys"}) {
				t.Errorf("%s reaches %s", pkg, dep)
			}
		}
	}
}

// early are packages that are initialized before those that make the program large: in
// the order of their paths, once their imports are. late are imports that would be ready
// too late; TestAHolderBeginsBeforeTheRestOfTheProgram measures the result.
var (
	early = []string{"./internal/host/containerproc", "./internal/host/pods/holder"}
	late  = []string{"net", "net/netip", "os/exec", "path/filepath", "runtime/debug"}
)

func TestEarlyPackagesImportNothingLate(t *testing.T) {
	for pkg, deps := range deps(t, early) {
		for _, dep := range deps {
			if slices.Contains(late, dep) {
				t.Errorf("%s reaches %s", pkg, dep)
			}
		}
	}
}

// maxPackages limits what cmd/capstan links: 2686 packages and 1 % for other releases
// of Go and of libraries. Each is compiled when the build cache is empty, at 0.3 CPU
// seconds on average.
const maxPackages = 2709

func TestCapstanLinksFewPackages(t *testing.T) {
	program := module + "cmd/capstan"
	linked, found := linkedPackages(t)[program]
	if !found {
		t.Fatalf("go list has no %s", program)
	}
	if n := len(linked) + 1; n > maxPackages {
		t.Errorf("%s links %d packages, the limit is %d: import less, or increase maxPackages and give the reason in the commit", program, n, maxPackages)
	}
}

// maxHeavyTests limits the test binaries that link kube-apiserver or etcd: 6, and a
// few for new packages. To link one takes seconds and some 100 MB of the build cache.
// Other tests run the program capstan.
const maxHeavyTests = 10

func TestFewTestsLinkTheAPIServer(t *testing.T) {
	var heavy []string
	for pkg, linked := range linkedPackages(t) {
		if strings.HasSuffix(pkg, ".test") && slices.ContainsFunc(linked, func(dep string) bool {
			return hasPrefix(dep, []string{"k8s.io/kubernetes", "go.etcd.io/etcd/server/v3"})
		}) {
			heavy = append(heavy, strings.TrimPrefix(pkg, module))
		}
	}
	slices.Sort(heavy)
	if len(heavy) == 0 {
		t.Error("go list has no test that links kube-apiserver or etcd, not even that of internal/mgmtplane")
	}
	if len(heavy) > maxHeavyTests {
		t.Errorf("%d tests link kube-apiserver or etcd, the limit is %d: use internal/testenv, which runs the program\n%s", len(heavy), maxHeavyTests, strings.Join(heavy, "\n"))
	}
}

// deps returns the packages that each of the named packages links, without those that
// only its tests link. A name is ./FOLDER or ./FOLDER/...; each must exist.
func deps(t *testing.T, names []string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, name := range names {
		dir, tree := strings.CutSuffix(strings.TrimPrefix(name, "./"), "...")
		exists := false
		for pkg, linked := range linkedPackages(t) {
			of := strings.TrimPrefix(pkg, module)
			if strings.HasSuffix(pkg, ".test") || of != strings.TrimSuffix(dir, "/") && !(tree && strings.HasPrefix(of+"/", dir)) {
				continue
			}
			found[pkg], exists = linked, true
		}
		if !exists {
			t.Errorf("package %s not found", name)
		}
	}
	return found
}

// linked is what linkedPackages returns; list sets it.
var linked struct {
	list     sync.Once
	packages map[string][]string
}

// linkedPackages returns, for each package and test binary (PACKAGE.test) of the
// module, the packages that it links. go list takes seconds, so tests share one call.
func linkedPackages(t *testing.T) map[string][]string {
	t.Helper()
	linked.list.Do(func() {
		cmd := exec.CommandContext(t.Context(), "go", "list", "-test", "-f", `{{if not .ForTest}}{{.ImportPath}} {{join .Deps " "}}{{end}}`, "./...")
		cmd.Stderr = t.Output()
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("go list: %v", err)
			return
		}
		linked.packages = map[string][]string{}
		for line := range strings.Lines(string(out)) {
			if fields := strings.Fields(line); len(fields) > 0 {
				linked.packages[fields[0]] = fields[1:]
			}
		}
	})
	if linked.packages == nil {
		t.Fatal("go list failed before")
	}
	return linked.packages
}
