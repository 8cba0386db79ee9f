// SPDX-License-Identifier: Apache-2.0

package move

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/internal/cli/command"
)

// execute runs move with the environment of a user without a management cluster.
func execute(t *testing.T, args ...string) (said string, err error) {
	t.Helper()
	var out bytes.Buffer
	cmd := New(&command.Env{Name: "capstan", Out: &out, Err: &out, Now: time.Now, LookupEnv: func(string) (string, bool) { return "", false }})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestMoveRefusesFlagsThatContradict(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                                    "--to-kubeconfig is needed",
		"-n fleet --rollback":                 "--to-kubeconfig is needed",
		"--from-directory d":                  "--to-kubeconfig is needed",
		"--from-directory d --dry-run":        "--to-kubeconfig is needed",
		"--to-directory d --to-kubeconfig k":  "a directory is filled, or a management cluster",
		"--to-directory d --from-directory e": "--to-directory and --from-directory exclude each other",
		"--from-directory d --to-kubeconfig k --kubeconfig s": "leave --kubeconfig and --data-dir out",
		"--from-directory d --to-kubeconfig k --data-dir s":   "leave --kubeconfig and --data-dir out",
		"--from-directory d --to-kubeconfig k --rollback":     "--from-directory and --rollback exclude each other",
		"--to-kubeconfig k --dry-run --rollback":              "--dry-run and --rollback exclude each other",
		"--to-kubeconfig k --hide-api-warnings some":          `--hide-api-warnings "some" is not known: use default, all or none`,
		"--to-kubeconfig=":                                       "--to-kubeconfig without a value",
		"--to-kubeconfig k --namespace=":                         "--namespace without a value",
		"--dry-run --to-kubeconfig= --to-kubeconfig-context= -n": "flag needs an argument",
		"extra --dry-run":                                        "unknown command",
	} {
		if said, err := execute(t, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, new(command.UsageError)) && want != "flag needs an argument" || said != "" {
			t.Errorf("%q: error %v, said %q; want misuse with %q", args, err, said, want)
		}
	}
}

// TestMoveNamesTheSideThatIsMissing, before it writes anything.
func TestMoveNamesTheSideThatIsMissing(t *testing.T) {
	t.Parallel()
	written := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		written = written || r.Method != http.MethodGet
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	config := filepath.Join(dir, "kubeconfig")
	text := "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, namespace: fleet}}], clusters: [{name: c, cluster: {server: '" + server.URL + "'}}]}"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no target":          {[]string{"--to-kubeconfig", dir + "/none", "--kubeconfig", config}, "--to-kubeconfig " + dir + "/none: "},
		"no such context":    {[]string{"--to-kubeconfig", config, "--to-kubeconfig-context", "other", "--kubeconfig", config}, `"other" does not exist`},
		"no source":          {[]string{"--to-kubeconfig", config}, "name one with --kubeconfig or --data-dir"},
		"no source to save":  {[]string{"--to-directory", dir, "--kubeconfig", dir + "/none"}, dir + "/none"},
		"a plane that is no": {[]string{"--to-kubeconfig", config, "--kubeconfig", config}, ""},
	} {
		if _, err := execute(t, tc.args...); err == nil || !strings.Contains(err.Error(), tc.want) || errors.As(err, new(command.UsageError)) {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
	}
	if written {
		t.Error("a management cluster was written to")
	}
}

// seen are the warnings that reach a user.
type seen []string

func (s *seen) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	*s = append(*s, text)
}

func TestWarningsAreHiddenAsRequested(t *testing.T) {
	t.Parallel()
	all := []string{`metadata.finalizers: "x": prefer a domain-qualified finalizer name`, "spec.x is deprecated", "unknown field metadata.finalizers"}
	for which, want := range map[string][]string{"default": all[1:], "all": nil, "none": all} {
		var got seen
		for _, text := range all {
			hiding{&got, which}.HandleWarningHeaderWithContext(t.Context(), 299, "-", text)
		}
		if diff := cmp.Diff(want, []string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", which, diff)
		}
	}
}

// TestOnlyEndedProcessesOfThisHostAreGone: the lock of any other move stays.
func TestOnlyEndedProcessesOfThisHostAreGone(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	ended := exec.CommandContext(t.Context(), "true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	env := &command.Env{LookupEnv: func(string) (string, bool) { return "", false }}
	for by, want := range map[string]bool{
		whoAmI(env): false,
		fmt.Sprintf("me on %s, process %d", host, ended.Process.Pid): true,
		fmt.Sprintf("me on %s, process %d", host, os.Getpid()):       false,
		fmt.Sprintf("me on %s.example, process %d", host, 1<<30):     false,
		fmt.Sprintf("me on %s, process ", host):                      false,
		fmt.Sprintf("me on %s, process none", host):                  false,
		fmt.Sprintf("me on %s", host):                                false,
		fmt.Sprintf("process %d", ended.Process.Pid):                 false,
		"": false,
	} {
		if got := isGone(by); got != want {
			t.Errorf("%q is gone: %t", by, got)
		}
	}
}
