// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/cli/command"
)

// full is a device that has no room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// run executes a command line without an environment.
func run(t *testing.T, env *Env, args ...string) (status int, said string) {
	t.Helper()
	var talk bytes.Buffer
	env.Name, env.Err, env.In = "capstan", &talk, strings.NewReader("")
	home := t.TempDir()
	env.LookupEnv = func(name string) (string, bool) {
		if name == "HOME" {
			return home, true
		}
		return "", false
	}
	return Run(t.Context(), env, args), talk.String()
}

// TestOutputThatCannotBeWrittenIsAFailure, whatever a command writes it with.
func TestOutputThatCannotBeWrittenIsAFailure(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"--version", "--help", "help", "version", "version -o json", "generate", "generate cluster --help", "completion bash", "completion zsh", "completion fish", "completion powershell",
		"generate cluster demo", "generate cluster demo --list-variables", "config repositories", "config repositories -o yaml", "extension openapi",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			if status, said := run(t, &Env{Env: command.Env{Out: &out}}, strings.Fields(args)...); status != 0 || out.Len() == 0 {
				t.Fatalf("to a buffer: status %d, %d bytes, %s", status, out.Len(), said)
			}
			if status, said := run(t, &Env{Env: command.Env{Out: full{}}}, strings.Fields(args)...); status != 1 || !strings.Contains(said, "no space left on device") {
				t.Errorf("to a full device: status %d, %s", status, said)
			}
		})
	}
}

// TestExitStatusIsOfMisuseWhereUpstreamFails has the command lines that did nothing
// and ended with 0.
func TestExitStatusIsOfMisuseWhereUpstreamFails(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"delete":               "capstan: at least one of --core, --bootstrap,",
		"delete --include-crd": "capstan: at least one of --core, --bootstrap,",
		"completion":           "capstan: a shell is needed: one of bash, fish, powershell, zsh",
		"completion nosuch":    `capstan: unknown command "nosuch"`,
		"alpha topology plan":  `capstan: unknown command "topology"`,
		"generate cluster demo --control-plane-machine-count 0": "capstan: --control-plane-machine-count 0: there must be at least 1",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			status, said := run(t, &Env{Env: command.Env{Out: &out}}, strings.Fields(args)...)
			if status != 2 || !strings.HasPrefix(said, want) || out.Len() > 0 {
				t.Errorf("status %d, %s, output %q; want status 2, %s", status, said, out.String(), want)
			}
		})
	}
}
