// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCommandsAreNoWayOut runs the attempts of testdata/probe/race.go in a Pod
// while commands start in it, like probes and hooks. A client is attached to it,
// too.
func TestCommandsAreNoWayOut(t *testing.T) {
	h := open(t, Options{})
	file := filepath.Join(t.TempDir(), "secret")
	// Every user may read it.
	if err := errors.Join(os.WriteFile(file, []byte("secret"), 0o644), os.Chmod(filepath.Dir(filepath.Dir(file)), 0o755)); err != nil {
		t.Fatal(err)
	}
	// The kernel copies these after the capabilities are dropped, and before the
	// program runs.
	long := append([]string{"/tmp/program", "echo"}, slices.Repeat([]string{strings.Repeat("x", 100<<10)}, 14)...)
	for _, user := range []int64{65532, 0} {
		for name, tc := range map[string]struct{ input, terminal bool }{"probe": {}, "input": {input: true}, "terminal": {true, true}} {
			t.Run(fmt.Sprintf("%s as user %d", name, user), func(t *testing.T) {
				s := start(t, h, func(s *Spec) { s.Name = fmt.Sprint("default_race_", name, user) })
				c := container(t, "race", file, "/tmp/program")
				c.Env, c.User, c.Group, c.Stdin = append(c.Env, "CAPSTAN_TEST_ESCAPE=this Pod"), user, user, true
				c.Mounts = []Mount{{Tmpfs: true, Target: "/tmp"}}
				p, err := s.Run(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				heard, ended := attach(t.Context(), p, nil)
				go func() { _, _ = io.Copy(io.Discard, heard) }()
				until(t, p.Stdout(), "ready\n")
				for range 2 { // the first is delayed
					streams := Streams{Stdout: io.Discard, TTY: tc.terminal}
					if tc.input {
						streams.Stdin = strings.NewReader("x")
					}
					if code, err := s.Exec(soon(t), "c", long, streams); err != nil || code != 0 {
						t.Fatalf("a command returned %d, %v", code, err)
					}
				}
				if err := p.Stdin().Close(); err != nil {
					t.Fatal(err)
				}
				e, out := p.Wait(), all(t, p.Stdout())
				if err := <-ended; err != nil {
					t.Error(err)
				}
				if e.Code != 0 || strings.Contains(out, "ESCAPED") || !strings.Contains(out, "held 1, saw ") {
					t.Errorf("got %+v:\n%s%s", e, out, all(t, p.Stderr()))
				}
			})
		}
	}
}

// TestHolderHasAnEmptyRoot: links to a folder of the holder lead nowhere else.
func TestHolderHasAnEmptyRoot(t *testing.T) {
	s := start(t, open(t, Options{}))
	for range 2 { // a container has no effect on this
		files, err := os.ReadDir(fmt.Sprintf("/proc/%d/root", s.holder.Pid))
		if err != nil || len(files) != 1 || files[0].Name() != "proc" {
			t.Errorf("got %v, %v, want the folder proc alone", files, err)
		}
		if out, failed, e := outcome(t, s, container(t, "echo", "x")); e.Code != 0 {
			t.Errorf("got %+v: %s%s", e, out, failed)
		}
	}
}
