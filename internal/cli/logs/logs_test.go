// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/capstan-dev/capstan/internal/cli/command"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

const logged = `I0102 11:00:00.000001   32393 options.go:263] external host was not specified
I0102 11:00:01.000000   32393 machines.go:47] "Created Machine" controller="kubeadmcontrolplane" Cluster="default/demo" Machine="demo-1" reason="have 0, \"want\" 1"
E0102 11:30:00.000000   32393 controller.go:474] "Reconciler error" err=<
	dial tcp: refused
	again
 > Cluster="default/demo" attempt=3
I0102 11:45:00.000000   32393 machines.go:47] "Created Machine" Cluster="default/demo-2"
Stopping the management plane
I0102 11:59:00.000000   32393 rollout.go:123] "Rolling out" Cluster="default/demo" diff={"a": "b c"} last=word
`

func TestParse(t *testing.T) {
	t.Parallel()
	at := func(clock string) time.Time {
		v, err := time.Parse("2006-01-02 15:04:05", clock)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for name, tc := range map[string]struct {
		text string
		want entry
	}{
		"with values": {`I0102 11:00:01.000000   32393 machines.go:47] "Created Machine" Cluster="default/demo" reason="have 0, \"want\" 1"`,
			entry{Time: at("2026-01-02 11:00:01"), Level: "info", Source: "machines.go:47", Message: "Created Machine", Values: map[string]string{"Cluster": "default/demo", "reason": `have 0, "want" 1`}}},
		"with a block": {"E0102 11:30:00.000000 1 c.go:4] \"Reconciler error\" err=<\n\tdial\n\tagain\n > Cluster=\"a/b\" n=3",
			entry{Time: at("2026-01-02 11:30:00"), Level: "error", Source: "c.go:4", Message: "Reconciler error", Values: map[string]string{"err": "dial\nagain", "Cluster": "a/b", "n": "3"}}},
		"with a structure":   {`W0102 11:59:00.000000 1 r.go:1] "Odd" diff={"a": "b c"} last=word`, entry{Time: at("2026-01-02 11:59:00"), Level: "warning", Source: "r.go:1", Message: "Odd", Values: map[string]string{"diff": `{"a": "b c"}`, "last": "word"}}},
		"without values":     {"I0102 11:00:00.000000 1 o.go:2] plain words", entry{Time: at("2026-01-02 11:00:00"), Level: "info", Source: "o.go:2", Message: "plain words"}},
		"of the year before": {"I1231 23:00:00.000000 1 o.go:2] old", entry{Time: at("2025-12-31 23:00:00"), Level: "info", Source: "o.go:2", Message: "old"}},
		"of another program": {"panic: oh", entry{Message: "panic: oh"}},
		"broken":             {`I0102 11:00:00.000000 1 o.go:2] "no end key="`, entry{Time: at("2026-01-02 11:00:00"), Level: "info", Source: "o.go:2", Message: "no end key=", Values: map[string]string{}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, parse(tc.text, noon), cmpopts.IgnoreUnexported(entry{})); diff != "" {
				t.Errorf("entry (-want +got):\n%s", diff)
			}
		})
	}
}

// buffer can be read while it is written.
type buffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) { b.mu.Lock(); defer b.mu.Unlock(); return b.b.Write(p) }
func (b *buffer) String() string              { b.mu.Lock(); defer b.mu.Unlock(); return b.b.String() }

// logsOf runs the command on a data directory, at noon.
func logsOf(ctx context.Context, dir string, out *buffer, args ...string) error {
	cmd := New(&command.Env{Out: out, Err: out, Now: func() time.Time { return noon }, LookupEnv: func(string) (string, bool) { return "", false }})
	cmd.SetArgs(append(args, "--data-dir", dir))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	return cmd.ExecuteContext(ctx)
}

func write(t *testing.T, dir, text string, flags int) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "capstan.log"), os.O_CREATE|os.O_WRONLY|flags, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsShownOfALog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, logged, os.O_TRUNC)
	for args, want := range map[string]string{ // to the last words of the lines
		"":                          "specified 1\" err=< refused again attempt=3 Cluster=\"default/demo-2\" plane last=word",
		"demo":                      "1\" err=< refused again attempt=3 last=word",
		"demo --tail 1":             "last=word",
		"demo --tail 0":             "",
		"demo --since 31m":          "err=< refused again attempt=3 last=word",
		"--since 20m":               "Cluster=\"default/demo-2\" plane last=word",
		"demo-2":                    "Cluster=\"default/demo-2\"",
		"demo -n other":             "other/demo",
		"demo-2 -o json --since 1h": `{"time":"2026-01-02T11:45:00Z","level":"info","source":"machines.go:47","message":"CreatedMachine","values":{"Cluster":"default/demo-2"}}`,
	} {
		var out buffer
		if err := logsOf(t.Context(), dir, &out, strings.Fields(args)...); err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			words := strings.Fields(line)
			if strings.HasPrefix(line, "{") {
				words = []string{strings.Join(words, "")}
			}
			got = append(got, words[len(words)-1])
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%q: %q, want %q", args, text, want)
		}
	}
}

func TestFollowedLogRestartsWithNewFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, logged, os.O_TRUNC)
		ctx, cancel := context.WithCancel(t.Context())
		var out buffer
		done := make(chan error, 1)
		go func() { done <- logsOf(ctx, dir, &out, "demo", "--follow", "--tail", "0") }()
		time.Sleep(time.Second)
		write(t, dir, "I0102 11:59:01.000000 1 a.go:1] \"First\" Cluster=\"default", os.O_APPEND)
		time.Sleep(time.Second)
		write(t, dir, "/demo\"\nI0102 11:59:02.000000 1 a.go:1] \"Of another\" Cluster=\"a/b\"\n", os.O_APPEND)
		time.Sleep(time.Second)
		write(t, dir, "I0102 11:59:03.000000 1 a.go:1] \"\x1b[2J\" Cluster=\"default/demo\"\n", os.O_TRUNC)
		time.Sleep(time.Second)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		want := "I0102 11:59:01.000000 1 a.go:1] \"First\" Cluster=\"default/demo\"\nI0102 11:59:03.000000 1 a.go:1] \"\\x1b[2J\" Cluster=\"default/demo\"\n"
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}

func TestMissingLogIsReportedWithRemedy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := logsOf(t.Context(), dir, &buffer{}); err == nil || !strings.Contains(err.Error(), "`capstan up --data-dir "+dir+"` starts one") {
		t.Errorf("error %v", err)
	}
}

func TestTheConsoleOfAMachineIsShown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	record, console := filepath.Join(dir, "machines/machines/m0-1"), filepath.Join(dir, "containers/containers/m0-1")
	if err := errors.Join(
		os.MkdirAll(record, 0o700), os.MkdirAll(console, 0o700),
		os.WriteFile(filepath.Join(record, "machine.json"), []byte(`{"namespace": "default", "name": "m0"}`), 0o600),
		os.WriteFile(filepath.Join(console, "console.old"), []byte("first\r\n"), 0o600),
		os.WriteFile(filepath.Join(console, "console.log"), []byte("kubeadm join --token abcdef.0123456789abcdef\r\n"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args      []string
		out, fail string
	}{
		"of a machine":         {[]string{"m0"}, "first\nkubeadm join --token [...]\n", ""},
		"of an unknown one":    {[]string{"m1"}, "", "there is no container machine m1 in namespace default: there are m0"},
		"of another namespace": {[]string{"m0", "-n", "prod"}, "", "there is no container machine in namespace prod of " + dir + ": --namespace and --containers-dir choose others"},
		"of no machine":        {nil, "", `the name of one machine is needed; for a cluster with the name machine, use "capstan events machine"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			env := &command.Env{Out: &out, Err: &out, LookupEnv: func(string) (string, bool) { return "", false }}
			cmd := newMachine(env)
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetArgs(append(tc.args, "--containers-dir", dir))
			err := cmd.ExecuteContext(t.Context())
			if diff := cmp.Diff(tc.out, out.String()); diff != "" || (err == nil) != (tc.fail == "") || err != nil && err.Error() != tc.fail {
				t.Errorf("error %v, output (-want +got):\n%s", err, diff)
			}
		})
	}
}
