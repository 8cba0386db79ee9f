// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/decisions"
)

// execute runs a command against a plane that answers by path, and returns its output.
func execute(t *testing.T, answers map[string]string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, namespace: default}}], clusters: [{name: c, cluster: {server: '" + server.URL + "'}}]}"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, said bytes.Buffer
	env := &command.Env{Name: "capstan", Out: &out, Err: &said, Now: time.Now, LookupEnv: func(name string) (string, bool) { return file, name == "KUBECONFIG" }}
	root := &cobra.Command{Use: "capstan", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(New(env), NewReport(env), NewReplay(env))
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return out.String(), said.String(), err
}

func TestHistoryPrintsDecisionsOfOneObject(t *testing.T) {
	t.Parallel()
	answers := map[string]string{decisions.Path + "machineset/default/demo": string(encoded(t, recorded())), decisions.Path + "machine/fleet/none": `{"decisions":[]}`}
	for _, args := range [][]string{{"history", "machineset/demo"}, {"history", "ms/demo"}, {"history", "MachineSet/demo", "-n", "default"}} {
		out, said, err := execute(t, answers, args...)
		if err != nil || said != "" || !strings.HasPrefix(out, "MachineSet default/demo (UID u1)\n2026-08-01T12:00:00Z  machineset\n    create a: have 0, want 2\n") {
			t.Errorf("%q: %v, said %q, printed %s", args, err, said, out)
		}
	}
	out, _, err := execute(t, answers, "history", "machineset/demo", "-o", "json")
	var list decisions.List
	if err := errors.Join(err, json.Unmarshal([]byte(out), &list)); err != nil || len(list.Decisions) != len(recorded()) {
		t.Errorf("%v, %d decisions", err, len(list.Decisions))
	}
	out, said, err := execute(t, answers, "history", "machine/none", "-n", "fleet")
	if err != nil || out != "" || !strings.HasPrefix(said, "No decisions about Machine fleet/none are recorded: ") {
		t.Errorf("%v, said %q, printed %q", err, said, out)
	}
	for args, want := range map[string]string{
		"pod/a": `"pod"`, "machine": "is not KIND/NAME", "machine/": "is not KIND/NAME", "machine/a/b": "machine/a/b", "machine/a --namespace=": "--namespace without a value",
	} {
		if _, _, err := execute(t, answers, append([]string{"history"}, strings.Fields(args)...)...); !errors.As(err, new(command.UsageError)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want misuse with %s", args, err, want)
		}
	}
}

// TestHistoryStaysOnItsLines: names in facts are those of other writers.
func TestHistoryStaysOnItsLines(t *testing.T) {
	t.Parallel()
	hostile := decision(1, `{"Taints":[{"name":"a\n2026-08-01T12:00:09Z  forged\u001b[2J","x":2}],"Want":"b\nforged"}`, `["create a\nforged"]`)
	env, out := environment()
	if err := show(env, []decisions.Decision{decision(0, `{"Taints":[],"Want":"a"}`, `[]`), hostile}); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n"); len(lines) != 7 || strings.ContainsRune(out.String(), '\x1b') {
		t.Errorf("%d lines:\n%s", len(lines), out)
	}
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "forged") || strings.Contains(line, ":09Z") && !strings.HasPrefix(line, "      ") {
			t.Errorf("a fact forged the line %q", line)
		}
	}
}

func TestReportIsWrittenAndReplayed(t *testing.T) {
	t.Parallel()
	all, file := answers(t), filepath.Join(t.TempDir(), "report.tar.gz")
	out, said, err := execute(t, all, "report", file)
	if err != nil || !strings.HasPrefix(said, file+" has ") || !strings.Contains(out, "decisions.json") || !strings.Contains(out, "missing  metrics.txt: ") {
		t.Fatalf("%v, said %q, printed %q", err, said, out)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	if _, said, err := execute(t, nil, "replay", file); err != nil || !strings.Contains(said, "decisions are the same") {
		t.Errorf("%v, said %q", err, said)
	}
	if _, _, err := execute(t, all, "report", file); err == nil || !strings.Contains(err.Error(), "replace it with --force") {
		t.Errorf("again: error %v", err)
	}
	if _, _, err := execute(t, nil, "report", file+"2"); err == nil || !strings.HasPrefix(err.Error(), "read the version of the management cluster: ") {
		t.Errorf("without an answer: error %v", err)
	}
	if _, err := os.Stat(file + "2"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a report of nothing: %v", err)
	}
}

// TestReportThatCannotBeWrittenFails, and leaves the device.
func TestReportThatCannotBeWrittenFails(t *testing.T) {
	t.Parallel()
	if _, _, err := execute(t, answers(t), "report", "--force", "/dev/full"); err == nil || !strings.Contains(err.Error(), "write the report: ") || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("error %v", err)
	}
	if info, err := os.Stat("/dev/full"); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		t.Fatalf("the device is %v, %v", info, err)
	}
	if _, _, err := execute(t, answers(t), "report", "/dev/full"); err == nil || !strings.Contains(err.Error(), "/dev/full exists") {
		t.Errorf("without --force: error %v", err)
	}
	for _, args := range []string{"report", "report a b", "replay", "replay a b"} {
		if _, _, err := execute(t, nil, strings.Fields(args)...); !errors.As(err, new(command.UsageError)) {
			t.Errorf("%s: error %v, want misuse", args, err)
		}
	}
}
