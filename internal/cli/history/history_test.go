// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/decisions"
)

// of is an object of the tests.
var of = decisions.Object{Kind: "MachineSet", Namespace: "default", Name: "demo", UID: "u1"}

func decision(at int, facts, plan string) decisions.Decision {
	return decisions.Decision{
		Time: time.Date(2026, 8, 1, 12, 0, at, 0, time.UTC), Controller: "machineset", Planner: "scaling.Facts", Object: of,
		Facts: json.RawMessage(facts), Plan: json.RawMessage(plan),
	}
}

// recorded are decisions of all forms.
func recorded() []decisions.Decision {
	failed := decision(3, `{"Want":1}`, `{"waiting":"Waiting for \u001b[31m Secret","look":300000000000,"step":{"a":[1]}}`)
	failed.Error = "delete a: forbidden"
	omitted := decision(4, ``, `null`)
	omitted.Facts, omitted.Plan, omitted.Omitted = nil, nil, "facts and answers have 70000 bytes, the limit is 65536"
	other := decision(5, `{}`, `[]`)
	other.Object.UID = "u2"
	return []decisions.Decision{
		decision(0, `{"Want":2,"Machines":null,"Now":"2026-08-01T12:00:00Z"}`, `["create a: have 0, want 2","create b: have 0, want 2"]`),
		decision(1, `{"Want":2,"Machines":[{"metadata":{"name":"a","resourceVersion":"1"},"spec":{"x":1}},{"metadata":{"name":"b"}}],"Now":"2026-08-01T12:00:01Z"}`, `[]`),
		decision(2, `{"Want":1,"Machines":[{"metadata":{"name":"a","resourceVersion":"2"},"spec":{"x":1}}]}`, `{"actions":["delete b"],"current":"demo"}`),
		failed, omitted, other,
	}
}

func environment() (*command.Env, *bytes.Buffer) {
	var out bytes.Buffer
	return &command.Env{Name: "capstan", Out: &out, Err: &out, Now: time.Now, LookupEnv: func(string) (string, bool) { return "", false }}, &out
}

func TestHistoryShowsDecisions(t *testing.T) {
	t.Parallel()
	env, out := environment()
	if err := show(env, recorded()); err != nil {
		t.Fatal(err)
	}
	builder.Golden(t, "history.txt", out.String())
}

func TestHistoryPrintsJSON(t *testing.T) {
	t.Parallel()
	env, out := environment()
	if err := env.PrintObject(decisions.List{Decisions: recorded()}, "json"); err != nil {
		t.Fatal(err)
	}
	builder.Golden(t, "history.json", out.String())
}

func TestChangesAreBounded(t *testing.T) {
	t.Parallel()
	before, after := map[string]string{}, map[string]string{}
	for _, name := range strings.Split("abcdefghijkl", "") {
		before[name], after[name] = "1", strings.Repeat("2", 2*maxValue)
	}
	env, out := environment()
	printChanges(env, changes(before, after))
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != maxChanges+1 || len(lines[0]) > 2*maxValue {
		t.Errorf("%d lines: %s", len(lines), out)
	}
}

// TestChangesCannotCommandTheTerminal has elements of a list that a provider names.
func TestChangesCannotCommandTheTerminal(t *testing.T) {
	t.Parallel()
	env, out := environment()
	err := show(env, []decisions.Decision{
		decision(0, `{"conditions":[]}`, `[]`), decision(1, `{"conditions":[{"type":"\u001b[2J\nforged","status":"True"}]}`, `[]`),
	})
	if err != nil || strings.ContainsRune(out.String(), '\x1b') || strings.Contains(out.String(), "\nforged") {
		t.Errorf("%q, error %v", out, err)
	}
}

func TestReadReportsWhyThereIsNoHistory(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		code int
		body string
		want string
	}{
		"another plane":  {404, "404 page not found", "records no decisions at /capstan/v1/decisions/"},
		"no permission":  {403, "", "no permission to read /capstan/v1/decisions/machine/default/m: ask an administrator"},
		"anonymous":      {401, "", "no permission to read"},
		"failure":        {500, "broken", "read the recorded decisions: "},
		"something else": {200, "<html>", "read the recorded decisions: invalid character"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != decisions.Path+"machine/default/m" {
					t.Errorf("path %s", r.URL.Path)
				}
				w.WriteHeader(tc.code)
				_, _ = w.Write([]byte(tc.body))
			}))
			t.Cleanup(server.Close)
			_, err := read(t.Context(), command.Mgmt{Config: &rest.Config{Host: server.URL}}, "machine/default/m")
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %s", err, tc.want)
			}
		})
	}
}

func TestHistoryNeedsOneObject(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"machine/a", "machine/b"}, {"-o", "xml", "machine/a"}} {
		env, _ := environment()
		cmd := New(env)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(args)
		if _, is := errors.AsType[command.UsageError](cmd.ExecuteContext(t.Context())); !is {
			t.Errorf("%v is no misuse", args)
		}
	}
}
