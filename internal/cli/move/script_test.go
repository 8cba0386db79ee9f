// SPDX-License-Identifier: Apache-2.0

package move_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestScripts runs every script of testdata/script with the real program. The planes
// of a script are in $A and $B, and share the simulated machines of its home.
func TestScripts(t *testing.T) {
	testenv.OwnPlanes(t, 2)
	program := testenv.Binary(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "home")
			for name, dir := range map[string]string{"A": filepath.Join(home, "a"), "B": filepath.Join(home, "b")} {
				env.Setenv(name, dir)
				env.Defer(func() {
					if h, running, err := datadir.Running(datadir.Dir(dir)); err == nil && running {
						_ = syscall.Kill(h.PID, syscall.SIGKILL)
					}
				})
			}
			return builder.Home(env, program)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": builder.Exits, "until": builder.Until},
	})
}
