// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/capstan-dev/capstan/internal/cli/command"
)

// ofProvider runs logs provider against a management cluster in which the provider
// infrastructure-x has the Pods a, with two containers, and b. logs are the answers by
// Pod and container.
func ofProvider(t *testing.T, logs map[string]string, args ...string) (out string, asked []string, err error) {
	t.Helper()
	var mu sync.Mutex // guards asked
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		answer := ""
		switch path := r.URL.Path; path {
		case "/apis/apps/v1/deployments":
			answer = `{"kind":"DeploymentList","apiVersion":"apps/v1","items":[{"metadata":{"name":"d","namespace":"x-system","labels":{"cluster.x-k8s.io/provider":"infrastructure-x"}},"spec":{"selector":{"matchLabels":{"app":"x"}}}}]}`
		case "/api/v1/namespaces/x-system/pods":
			answer = `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a","namespace":"x-system"},"spec":{"containers":[{"name":"manager"},{"name":"proxy"}]}},{"metadata":{"name":"b","namespace":"x-system"},"spec":{"containers":[{"name":"manager"}]}}]}`
		default:
			pod := strings.TrimSuffix(strings.TrimPrefix(path, "/api/v1/namespaces/x-system/pods/"), "/log")
			q := r.URL.Query()
			of := pod + "/" + q.Get("container")
			q.Del("container")
			asked = append(asked, of+" "+q.Encode())
			text, ok := logs[of]
			if !ok {
				w.WriteHeader(http.StatusBadRequest)
				text = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"BadRequest","code":400,"message":"container is waiting to start"}`
			}
			answer = text
		}
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: '" + server.URL + "'}}]}"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	cmd := New(&command.Env{Out: &printed, Err: &printed, LookupEnv: func(name string) (string, bool) { return file, name == "KUBECONFIG" }})
	cmd.SetArgs(append([]string{"provider"}, args...))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(t.Context())
	return printed.String(), asked, err
}

func TestLogsOfAProviderAreThoseOfAllItsContainers(t *testing.T) {
	t.Parallel()
	all := map[string]string{"a/manager": "one\n\ttwo \x1b[2J\u202e\n", "a/proxy": "three", "b/manager": ""}
	const want = "a/manager: one\na/manager:     two \\x1b[2J\\u202e\na/proxy: three\n"
	for name, tc := range map[string]struct {
		args  []string
		query string
	}{
		"all":              {nil, ""},
		"the last":         {[]string{"--tail", "0"}, "tailLines=0"},
		"of a time":        {[]string{"--since", "1500ms"}, "sinceSeconds=2"},
		"before a restart": {[]string{"--previous"}, "previous=true"},
		"from now on":      {[]string{"--follow", "--tail", "5"}, "follow=true&tailLines=5"},
	} {
		out, asked, err := ofProvider(t, all, append(tc.args, "x")...)
		follow := strings.Contains(tc.query, "follow") // all at the same time
		if !follow && out != want || len(strings.Split(out, "\n")) != 4 || err != nil {
			t.Errorf("%s: %v, printed %q", name, err, out)
		}
		wantAsked := []string{"a/manager " + tc.query, "a/proxy " + tc.query, "b/manager " + tc.query}
		if diff := cmp.Diff(wantAsked, asked, cmpopts.SortSlices(strings.Compare)); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", name, diff)
		}
	}
}

// TestLogsOfOtherContainersAreShown if one does not run, or writes no lines.
func TestLogsOfOtherContainersAreShown(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		logs map[string]string
		want string
	}{
		"one does not run":    {map[string]string{"a/proxy": "three", "b/manager": "four"}, "read the log of Pod x-system/a: container is waiting to start"},
		"one writes no lines": {map[string]string{"a/manager": strings.Repeat("x", longestLine+1), "a/proxy": "three", "b/manager": "four"}, "read the log of Pod x-system/a: bufio.Scanner: token too long"},
	} {
		out, _, err := ofProvider(t, tc.logs, "x")
		if out != "a/proxy: three\nb/manager: four\n" || err == nil || err.Error() != tc.want {
			t.Errorf("%s: printed %.100q, error %v", name, out, err)
		}
	}
}

func TestLogsRefuseWhatCannotBe(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"provider":               `the name of one provider is needed; for a cluster with the name provider, use "capstan events provider"`,
		"provider a b":           "the name of one provider is needed",
		"provider a --tail -1":   "cannot be less than 0",
		"provider a --since -1s": "cannot be less than 0",
		"provider a -f -p":       "leave out --follow or --previous",
		"provider a --data-dir=": "--data-dir without a value",
		"a b":                    "the name of one cluster is needed, or none",
		"a --tail -2":            "cannot be less than 0",
		"a --since -2s":          "cannot be less than 0",
		"a -o yaml":              `--output "yaml" is not known: use json`,
		"a --namespace=":         "--namespace without a value",
		"a":                      "--data-dir is needed: neither XDG_DATA_HOME nor HOME is set",
		"machine a":              "--containers-dir is needed: neither XDG_DATA_HOME nor HOME says",
		"machine a --namespace= --containers-dir /tmp": "--namespace without a value",
	} {
		var out bytes.Buffer
		cmd := New(&command.Env{Out: &out, Err: &out, LookupEnv: func(string) (string, bool) { return "", false }})
		cmd.SetArgs(strings.Fields(args))
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.ExecuteContext(t.Context()); !errors.As(err, new(command.UsageError)) || !strings.Contains(err.Error(), want) || out.Len() > 0 {
			t.Errorf("%s: error %v, want misuse with %q", args, err, want)
		}
	}
}

// TestConsoleIsShownAsText: kubeadm indents by tabs, and a machine writes what it likes.
func TestConsoleIsShownAsText(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	text := "kubeadm join \\\r\n\t--token abcdef.0123456789abcdef\n\x1b[31mred\x1b[0m\n\nno end"
	if err := os.WriteFile(filepath.Join(folder, "console.log"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := (&console{env: &command.Env{Out: &out}, folder: folder}).show(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("kubeadm join \\\n    --token [...]\n\\x1b[31mred\\x1b[0m\n\nno end\n", out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	out.Reset()
	if err := (&console{env: &command.Env{Out: &out}, folder: folder + "/none"}).show(t.Context(), true); err != nil || out.Len() > 0 {
		t.Errorf("without a folder: %v, printed %q", err, out.String())
	}
	if err := os.Mkdir(filepath.Join(folder, "console.old"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := (&console{env: &command.Env{Out: &out}, folder: folder}).show(t.Context(), false); err == nil || !strings.HasPrefix(err.Error(), "read the console: ") {
		t.Errorf("a folder instead of a file: error %v", err)
	}
}

func TestLogThatIsNotKeptIsNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if got, err := FileOf(dir); err != nil || got != filepath.Join(dir, "capstan.log") {
		t.Errorf("%s, %v", got, err)
	}
	if err := os.Mkdir(filepath.Join(dir, "capstan.log"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := logsOf(t.Context(), dir, &buffer{}); err == nil || !strings.HasPrefix(err.Error(), "read the log: ") {
		t.Errorf("a folder: error %v", err)
	}
}
