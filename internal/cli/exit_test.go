// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/buildinfo"
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

// TestWrongCommandLinesAreMisuse of each command, before anything is read or asked.
func TestWrongCommandLinesAreMisuse(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"image pull":                           "requires at least 1 arg(s), only received 0",
		"image export":                         "accepts 1 arg(s), received 0",
		"image export v1.36.3":                 `required flag(s) "file" not set`,
		"image import":                         "accepts 1 arg(s), received 0",
		"image build":                          `required flag(s) "kubernetes-version" not set`,
		"image prune all":                      "unknown command",
		"image exprt":                          `unknown command "exprt": did you mean "export"?`,
		"simulated remove":                     "requires at least 1 arg(s), only received 0",
		"simulated lst":                        `unknown command "lst": did you mean "list"?`,
		"get nodez demo":                       `unknown command "nodez": did you mean "nodes"?`,
		"describe machine a":                   `unknown command "machine"`,
		"create clusters":                      `unknown command "clusters": did you mean "cluster"?`,
		"extension regster":                    `unknown command "regster": did you mean "register"?`,
		"up --listn x":                         `unknown flag: --listn: did you mean "--listen"?`,
		"up --join x --etcd-servers https://a": "--join says where the store is: leave out --etcd-servers",
		"down extra":                           `unknown command "extra"`,
		"status -o yaml":                       `--output "yaml" is not known: use json`,
		"version -o xml":                       `--output "xml" is not known: use json, yaml or short`,
		"version extra":                        `unknown command "extra"`,
		"delete cluster":                       "the name of one cluster is needed",
		"create cluster a b":                   "the name of one cluster is needed",
		"move --from-directory d":              "--to-kubeconfig is needed",
		"completion bash zsh":                  "unknown command",
		"doctor -o table":                      `--output "table" is not known: use json or yaml`,
		"get clusters --verbosity=much":        "invalid argument",
		"get clusters --config= --kubeconfig /dev/null": "/dev/null",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			status, said := run(t.Context(), t, &Env{Env: command.Env{Out: &out}}, strings.Fields(args)...)
			if wanted := map[bool]int{true: 1, false: 2}[want == "/dev/null"]; status != wanted || !strings.Contains(said, want) || out.Len() > 0 {
				t.Errorf("status %d, %s, output %q; want status %d, %s", status, said, out.String(), wanted, want)
			}
			if status == 2 && !strings.HasSuffix(said, " --help\".\n") {
				t.Errorf("no hint in %s", said)
			}
		})
	}
}

// TestCommandsWithoutAnActionPrintTheirHelp, and every command is in a group of it.
func TestCommandsWithoutAnActionPrintTheirHelp(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"", "image", "simulated", "get", "create", "describe", "extension", "generate", "topology", "rollout", "alpha", "provider", "upgrade", "config"} {
		var out bytes.Buffer
		if status, said := run(t.Context(), t, &Env{Env: command.Env{Out: &out}}, strings.Fields(args)...); status != 0 || said != "" || !strings.Contains(out.String(), "\nUsage:\n  capstan") {
			t.Errorf("%q: status %d, said %q, printed %q", args, status, said, out.String())
		}
	}
	env := &Env{Env: command.Env{Name: "capstan", Out: io.Discard, LookupEnv: func(string) (string, bool) { return "", false }}}
	for _, cmd := range New(env).Commands() {
		if cmd.GroupID == "" || cmd.Short == "" {
			t.Errorf("%s is in the group %q: %s", cmd.Name(), cmd.GroupID, cmd.Short)
		}
	}
}

// TestQuestionThatIsNotAgreedToDeletesNothing: the API server is not even asked.
func TestQuestionThatIsNotAgreedToDeletesNothing(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %s", r.Method, r.URL) }))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, kubeconfigFor(server.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	for answer, want := range map[string]string{"n\n": "nothing was changed", "\n": "nothing was changed", "": "nothing was changed", "yes, but not now\n": "nothing was changed"} {
		var out bytes.Buffer
		env := &Env{Env: command.Env{Out: &out, In: strings.NewReader(answer), Interactive: true}}
		status, said := run(t.Context(), t, env, "delete", "cluster", "demo", "-n", "fleet", "--kubeconfig", file)
		if status != 1 || !strings.Contains(said, "Delete Cluster fleet/demo of "+server.URL+" (--kubeconfig "+file+"), with all its machines and their disks? [y/N]\n") || !strings.HasSuffix(said, "capstan: "+want+"\n") || out.Len() > 0 {
			t.Errorf("%q: status %d, said %q, printed %q", answer, status, said, out.String())
		}
	}
}

func TestVersionIsPrintedInEachFormat(t *testing.T) {
	t.Parallel()
	version := buildinfo.Read().Version
	for args, want := range map[string]string{"version": "capstan version " + version, "--version": "capstan version " + version, "version -o short": version + "\n", "version -o yaml": "version: ", "version -o json": "{\n"} {
		var out bytes.Buffer
		if status, said := run(t.Context(), t, &Env{Env: command.Env{Out: &out}}, strings.Fields(args)...); status != 0 || said != "" || !strings.Contains(out.String(), want) {
			t.Errorf("%s: status %d, said %q, printed %q, want %q", args, status, said, out.String(), want)
		}
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
