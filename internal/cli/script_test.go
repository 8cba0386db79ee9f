// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

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
