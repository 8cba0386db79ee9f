// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
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
