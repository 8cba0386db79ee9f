// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/lockfile"
)

// lab is a folder with clusters: one that runs, one of a plane that is stopped, one
// of a plane that is deleted, one that was released, and one whose record is
// damaged.
type lab struct {
	*testing.T
	dir      string
	out, err bytes.Buffer
	in       string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{T: t, dir: filepath.Join(t.TempDir(), "simulated")}
	stopped := t.TempDir()
	for id, holder := range map[string]string{"runs": "the plane on " + stopped, "stopped": "the plane on " + stopped, "gone": "the plane on /no/such/folder", "released": "", "damaged": "the manager of https://x"} {
		dir := filepath.Join(l.dir, id)
		lock := `{"holder":"` + holder + `","pid":1}`
		if holder == "" {
			lock = ""
		}
		record := `{"namespace":"default","name":"` + id + `","uid":"` + id + `"}`
		if id == "damaged" {
			record = "{"
		}
		l.must(os.MkdirAll(dir, 0o700))
		l.must(os.WriteFile(filepath.Join(dir, "lock"), []byte(lock), 0o600))
		l.must(os.WriteFile(filepath.Join(dir, "cluster.json"), []byte(record), 0o600))
	}
	f, err := os.Open(filepath.Join(l.dir, "runs", "lock"))
	l.must(err)
	l.must(lockfile.Wait(f))
	t.Cleanup(func() { _ = f.Close() })
	return l
}

func (l *lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// run runs the command, and gives its output in columns of one blank.
func (l *lab) run(args ...string) (string, error) {
	l.out.Reset()
	env := &command.Env{Out: &l.out, Err: &l.err, In: strings.NewReader(l.in), LookupEnv: func(string) (string, bool) { return "", false }}
	cmd := New(env)
	cmd.SetArgs(append(args, "--simulated-dir", l.dir))
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(l.Context())
	var lines []string
	for line := range strings.Lines(l.out.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n"), err
}

func (l *lab) left() (out []string) {
	entries, err := os.ReadDir(l.dir)
	l.must(err)
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestWhatIsKeptIsListedWithWhoUsesIt(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	got, err := l.run("list")
	l.must(err)
	for _, want := range []string{
		"- damaged Idle the manager of https://x 1 KiB", "default/gone gone Idle the plane on /no/such/folder 1 KiB", "default/released released Idle - 1 KiB",
		"default/runs runs Running the plane on /", "default/stopped stopped Idle the plane on /",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if got, err = l.run("list", "-o", "json"); err != nil || strings.Count(got, `"running": true`) != 1 {
		t.Errorf("as JSON: %s, %v", got, err)
	}
	l.dir += "-missing"
	if got, err := l.run("list", "-o", "json"); err != nil || got != "[]" {
		t.Errorf("of no folder: %q, %v", got, err)
	}
}

func TestPruneKeepsStateThatMayBeUsed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	all := l.left()
	got, err := l.run("prune", "--dry-run")
	if want := "default/gone gone 1 KiB\ndefault/released released 1 KiB"; err != nil || got != want {
		t.Errorf("dry: %q, %v, want %q", got, err, want)
	}
	l.in = "n\n"
	if _, err := l.run("prune"); err == nil || err.Error() != "nothing was changed" {
		t.Errorf("with no: %v", err)
	}
	if diff := cmp.Diff(all, l.left()); diff != "" {
		t.Errorf("before (-want +got):\n%s", diff)
	}
	l.in = "y\n"
	if _, err := l.run("prune"); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"damaged", "runs", "stopped"}, l.left()); diff != "" {
		t.Errorf("after (-want +got):\n%s", diff)
	}
	if got, err := l.run("prune", "--yes"); err != nil || got != "" {
		t.Errorf("again: %q, %v", got, err)
	}
}

func TestOneIsRemovedByItsNameOrItsIdentityUnlessItRuns(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for name, want := range map[string]string{
		"default/runs": "is run by the plane on ", "nope": "nothing is kept of nope: `capstan simulated list` shows what is",
	} {
		if _, err := l.run("remove", "--yes", name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
	if _, err := l.run("remove", "--yes", "default/stopped", "damaged"); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"gone", "released", "runs"}, l.left()); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}
