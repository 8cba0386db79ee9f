// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTheMainThreadIsSpared tries it often: the thread of a goroutine is random.
func TestTheMainThreadIsSpared(t *testing.T) {
	for range 1000 {
		onThreadOfItsOwn(func() {
			if unix.Gettid() == unix.Getpid() {
				t.Error("it runs on the main thread")
			}
		})
	}
}

func TestAGroupWithProcessesGivesNothingOn(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		want  bool
	}{
		"the root of a host":          {map[string]string{"cgroup.procs": "1\n", "cgroup.subtree_control": "\n"}, false},
		"that of a container":         {map[string]string{"cgroup.procs": "1\n", "cgroup.subtree_control": "\n", "cgroup.type": "domain\n"}, true},
		"one that was divided before": {map[string]string{"cgroup.procs": "", "cgroup.subtree_control": "cpu memory\n", "cgroup.type": "domain\n"}, false},
		"one without a process":       {map[string]string{"cgroup.procs": "", "cgroup.subtree_control": "\n", "cgroup.type": "domain\n"}, false},
	} {
		dir := t.TempDir()
		for file, text := range tc.files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := occupied(dir); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
