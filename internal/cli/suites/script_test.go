// SPDX-License-Identifier: Apache-2.0

package suites_test

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestScripts runs every script of testdata/script with the real program and a
// plane that they share.
func TestScripts(t *testing.T) {
	program := testenv.Binary(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("KUBECONFIG", testenv.Start(t).Kubeconfig)
			return builder.Home(env, program)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": builder.Exits},
	})
}
