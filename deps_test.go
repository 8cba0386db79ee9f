// SPDX-License-Identifier: Apache-2.0

package capstan

import (
	"os/exec"
	"strings"
	"testing"
)

// reach says what packages must not reach, however far away it is.
var reach = map[string]struct {
	public    bool     // all packages that others may import
	from      []string // and these
	forbidden []string
}{
	// Whoever imports our types or our libraries must not carry an API server
	// and etcd; only the program that runs them does.
	"an API server": {
		public:    true,
		from:      []string{"./internal/cli/...", "./internal/app/manager/...", "./cmd/capstan-manager"},
		forbidden: []string{"k8s.io/kubernetes", "go.etcd.io/etcd/server/v3"},
	},
	// What holds types only, and the programs of extension authors, are light.
	"a client": {
		from:      []string{"./api/...", "./contract/...", "./conditions/...", "./extension/...", "./cmd/sample-extension"},
		forbidden: []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime", "k8s.io/apiserver"},
	},
	// testing adds flags to a program, and ties what takes a *testing.T to go
	// test: libraries take an interface, or return results.
	"testing": {public: true, from: []string{"./cmd/sample-extension"}, forbidden: []string{"testing"}},
	// Core controllers know providers by contract, whoever made them.
	"a provider": {
		from:      []string{"./internal/controller/cluster", "./internal/controller/machine", "./internal/controller/machineset", "./internal/controller/machinedeployment", "./internal/controller/machinehealthcheck", "./internal/controller/machinepool"},
		forbidden: []string{module + "api/bootstrap", module + "api/controlplane", module + "api/infrastructure"},
	},
	// peer/ has a module of its own to compare with upstream.
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

// light are packages that reach nothing but the standard library, the kernel, and
// packages of ours that do the same. A supervisor is this program, taken over before
// it is initialised: all that comes before it is paid for by each container.
var light = []string{"./internal/access/containers/supervisor"}

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

// deps lists, for each package that is named, all that it reaches.
func deps(t *testing.T, packages []string) map[string][]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-f", `{{.ImportPath}} {{join .Deps " "}}`}, packages...)...)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %s: %v", strings.Join(packages, " "), err)
	}
	found := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		found[fields[0]] = fields[1:]
	}
	return found
}
