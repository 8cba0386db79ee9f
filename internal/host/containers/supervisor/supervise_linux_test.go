// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSupervisorWithoutPlanNeedsNoLock covers a supervisor whose launcher was
// killed: it gets no plan, and must not take the lock that the supervisor of the
// next launcher needs.
func TestSupervisorWithoutPlanNeedsNoLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	next, err := lock(filepath.Join(dir, LockFile))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = next.Close() }() // nothing was written
	told, answer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = told.Close() }() // read to its end
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Args, cmd.Dir, cmd.ExtraFiles = []string{Name}, dir, []*os.File{answer} // without standard input
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := answer.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(told)
	if err != nil || !strings.Contains(string(got), "read what to run: EOF") {
		t.Errorf("answered %q, %v, want that it got no plan", got, err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it exited with status 0")
	}
}

// TestSupervisorReportsWhyItCannotStart: the launcher shows the answer.
func TestSupervisorReportsWhyItCannotStart(t *testing.T) {
	t.Parallel()
	groupless, err := json.Marshal(Run{Born: "/nonexistent"})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		prepare func(dir string) error
		plan    string
		want    string
		begins  bool // so that it has a state
	}{
		"a plan of another version": {func(string) error { return nil }, `{"Groups": "a"}`, "cannot unmarshal string", false},
		"its socket is a folder":    {func(dir string) error { return os.MkdirAll(filepath.Join(dir, SocketFile, "a"), 0o700) }, `{}`, "remove the socket of an earlier supervisor: ", false},
		"no control group":          {func(string) error { return nil }, string(groupless), "open control group: open /nonexistent: no such file or directory", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := tc.prepare(dir); err != nil {
				t.Fatal(err)
			}
			told, answer, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = told.Close() }() // read to its end
			cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
			cmd.Args, cmd.Dir, cmd.ExtraFiles, cmd.Stdin = []string{Name}, dir, []*os.File{answer}, strings.NewReader(tc.plan)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			_ = answer.Close()
			got, err := io.ReadAll(told)
			if err != nil || !strings.Contains(string(got), tc.want) {
				t.Errorf("answered %q, %v, want %q", got, err, tc.want)
			}
			if err := cmd.Wait(); err == nil {
				t.Error("it exited with status 0")
			}
			if alive, err := Alive(filepath.Join(dir, LockFile)); alive || err != nil {
				t.Errorf("its lock is held: %v, %v", alive, err)
			}
			if tc.begins {
				if st, err := ReadState(dir); err != nil || !st.Ended || st.ExitCode != 1 || st.Message != tc.want || st.HostBoot == "" {
					t.Errorf("its state is %+v, %v", st, err)
				}
			}
		})
	}
}
