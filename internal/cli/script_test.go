// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// TestScripts runs every script of testdata/script with the real program. A script
// has a separate home; what still runs on $HOME/data at its end is killed.
func TestScripts(t *testing.T) {
	testenv.OwnPlanes(t, 3)
	bin := filepath.Dir(testenv.Binary(t))
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "home")
			env.Setenv("HOME", home)
			env.Setenv("DATA", filepath.Join(home, "data"))
			env.Setenv("PATH", bin+string(filepath.ListSeparator)+env.Getenv("PATH"))
			env.Defer(func() { _ = signal(filepath.Join(home, "data"), syscall.SIGKILL) })
			return os.Mkdir(home, 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			// crash DIR kills the plane that runs on DIR.
			"crash": func(ts *testscript.TestScript, _ bool, args []string) {
				if len(args) != 1 {
					ts.Fatalf("usage: crash DIR")
				}
				ts.Check(signal(args[0], syscall.SIGKILL))
				testenv.Eventually(t, func() error {
					if _, running, err := datadir.Running(datadir.Dir(args[0])); err != nil || running {
						return fmt.Errorf("the plane on %s still runs: %v", args[0], err)
					}
					return nil
				})
			},
		},
	})
}

func signal(dir string, s syscall.Signal) error {
	h, running, err := datadir.Running(datadir.Dir(dir))
	if err != nil || !running {
		return err
	}
	return syscall.Kill(h.PID, s)
}

func TestMain(m *testing.M) { testenv.Main(m) }

// TestClusterScripts runs every script of testdata/cluster with the real program,
// side by side on one management plane. Each has a separate home and namespace,
// $NS.
func TestClusterScripts(t *testing.T) {
	program := testenv.Binary(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/cluster",
		Setup: func(env *testscript.Env) error {
			plane := testenv.Start(t)
			env.Setenv("KUBECONFIG", plane.Kubeconfig)
			env.Setenv("NS", plane.Namespace)
			env.Values["plane"] = plane
			return builder.Home(env, program, "clusterctl")
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": builder.Exits,
			"until": builder.Until,
			"apply": func(ts *testscript.TestScript, negated bool, args []string) {
				if negated || len(args) != 1 {
					ts.Fatalf("usage: apply FILE")
				}
				ts.Check(apply(t.Context(), ts.Value("plane").(*testenv.Env), ts.ReadFile(args[0])))
			},
		},
	})
}

// apply creates the objects of a document in the script's namespace.
func apply(ctx context.Context, plane *testenv.Env, doc string) error {
	objects, err := template.Objects([]byte(doc))
	if err != nil {
		return err
	}
	for _, obj := range objects {
		obj.SetNamespace(plane.Namespace)
		if err := plane.Client.Create(ctx, obj); err != nil {
			return err
		}
	}
	return nil
}
