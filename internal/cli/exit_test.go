// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/capstan-dev/capstan/internal/cli/command"
)

// full is a device that has no room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// run executes a command line without an environment.
func run(ctx context.Context, t *testing.T, env *Env, args ...string) (status int, said string) {
	t.Helper()
	var talk bytes.Buffer
	env.Name, env.Err, env.In = "capstan", &talk, cmp.Or[io.Reader](env.In, strings.NewReader(""))
	home := t.TempDir()
	env.LookupEnv = func(name string) (string, bool) {
		if name == "HOME" {
			return home, true
		}
		return "", false
	}
	return Run(ctx, env, args), talk.String()
}

// TestOutputThatCannotBeWrittenIsAFailure, for every way in which a command writes
// it.
func TestOutputThatCannotBeWrittenIsAFailure(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"--version", "--help", "help", "version", "version -o json", "generate", "generate cluster --help", "completion bash", "completion zsh", "completion fish", "completion powershell",
		"generate cluster demo", "generate cluster demo --list-variables", "config repositories", "config repositories -o yaml", "extension openapi",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			if status, said := run(t.Context(), t, &Env{Env: command.Env{Out: &out}}, strings.Fields(args)...); status != 0 || out.Len() == 0 {
				t.Fatalf("to a buffer: status %d, %d bytes, %s", status, out.Len(), said)
			}
			if status, said := run(t.Context(), t, &Env{Env: command.Env{Out: full{}}}, strings.Fields(args)...); status != 1 || !strings.Contains(said, "no space left on device") {
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
			status, said := run(t.Context(), t, &Env{Env: command.Env{Out: &out}}, strings.Fields(args)...)
			if status != 2 || !strings.HasPrefix(said, want) || out.Len() > 0 {
				t.Errorf("status %d, %s, output %q; want status 2, %s", status, said, out.String(), want)
			}
		})
	}
}

// TestAnInterruptIsSaidInWords, also where a check only reports that it was
// canceled or that no server answers.
func TestAnInterruptIsSaidInWords(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"generate cluster demo --from https://127.0.0.1:1/template.yaml",
		"get clusters --kubeconfig FILE", "describe cluster demo --kubeconfig FILE",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "kubeconfig")
			text := "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]}"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(command.Interrupted{Signal: syscall.SIGINT})
			status, said := run(ctx, t, &Env{Env: command.Env{Out: &bytes.Buffer{}}}, strings.Fields(strings.ReplaceAll(args, "FILE", file))...)
			if status != 130 || !strings.Contains(said, "interrupted by signal: interrupt") {
				t.Errorf("status %d, %s", status, said)
			}
		})
	}
}

// TestAnInterruptEndsAReadOfStandardInput, of a terminal or a pipe that has nothing.
func TestAnInterruptEndsAReadOfStandardInput(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"generate yaml", "convert", "generate cluster demo --from -", "topology render -f -", "provider test --config -", "extension call BeforeClusterCreate --file - --url https://127.0.0.1:1"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			in, _ := io.Pipe()
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(command.Interrupted{Signal: syscall.SIGINT})
			status, said := run(ctx, t, &Env{Env: command.Env{In: in, Out: &bytes.Buffer{}}}, strings.Fields(args)...)
			if status != 130 || !strings.Contains(said, "interrupted by signal: interrupt") {
				t.Errorf("status %d, %s", status, said)
			}
		})
	}
}
