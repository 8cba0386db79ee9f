// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// weightOf returns what the probe prints of each process of a sandbox, which has
// its own session. Whether the kernel weighs sessions must be checked in another
// one: the process of the tests may have the session of the kernel, which has no
// nice value.
func weightOf(t *testing.T, s *Sandbox) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), probe, "weight", "child")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	own, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("nice 19 policy %d", unix.SCHED_BATCH)
	if _, session, weighed := strings.Cut(string(own), " session "); weighed {
		want += " session "
		if session != "\n" { // empty if the kernel has no sessions
			want += fmt.Sprintf("nice %d", s.autogroup)
		}
	}
	return want + "\n"
}

func TestContainerProcessesHaveLowWeight(t *testing.T) {
	s := start(t, open(t, Options{}))
	want := strings.Repeat(weightOf(t, s), 2) // a child and itself
	for _, tty := range []bool{false, true} {
		t.Run(fmt.Sprintf("terminal %t", tty), func(t *testing.T) {
			c := container(t, "weight")
			c.TTY = tty
			if out, failed, e := outcome(t, s, c); strings.ReplaceAll(out, "\r", "") != want || e.Code != 0 {
				t.Errorf("got %q %q, %+v, want %q", out, failed, e, want)
			}
			c = container(t, "sleep")
			p, err := s.Run(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer // like those of probes and hooks
			code, err := s.Exec(soon(t), "c", []string{"/bin/probe", "weight"}, Streams{Stdout: &out, TTY: tty})
			if got := strings.ReplaceAll(out.String(), "\r", ""); err != nil || code != 0 || got != want {
				t.Errorf("a command: got %q, %d, %v, want %q", got, code, err, want)
			}
			if err := p.Signal(unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			p.Wait()
		})
	}
}

func TestHolderKeepsNiceValueOfPlane(t *testing.T) {
	s := start(t, open(t, Options{}))
	plane, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := unix.Getpriority(unix.PRIO_PROCESS, s.holder.Pid); err != nil || got != plane {
		t.Errorf("got %d, %v, want %d, as getpriority returns it", got, err, plane)
	}
}

func TestContainersCannotRaiseTheirWeight(t *testing.T) {
	s := start(t, open(t, Options{}))
	for _, user := range []int64{65532, 0} {
		c := container(t, "raise")
		c.User, c.Group = user, user
		out, failed, e := outcome(t, s, c)
		if e.Code != 0 {
			t.Fatalf("got %q, %+v", failed, e)
		}
		if s.autogroup == 0 { // a group or the nice value decides, in any session
			for _, harmless := range []string{"raised: session of its own\n", "raised: the session's\n", "raised: a thread's session\n"} {
				out = strings.ReplaceAll(out, harmless, "")
			}
		}
		if strings.Contains(out, "raised: ") {
			t.Errorf("as user %d: %s", user, out)
		}
	}
}

// TestSessionsAreLowWhereTheyCount: the tests of a plain user run in its groups,
// which are the root of them on many machines where sessions are weighed.
func TestSessionsAreLowWhereTheyCount(t *testing.T) {
	h := open(t, Options{})
	s := start(t, h)
	switch {
	case h.rootless && autogrouped() != (s.autogroup == sessionNice):
		t.Errorf("nice value %d of the session where sessions are weighed: %t", s.autogroup, autogrouped())
	case !h.rootless && s.autogroup != 0:
		t.Errorf("nice value %d of the session, in a group with a weight", s.autogroup)
	}
}

func TestGroupOfAllPodsHasLowWeight(t *testing.T) {
	h := open(t, Options{})
	if h.rootless {
		t.Skip("without root there are no groups")
	}
	start(t, h)
	var found []string
	for _, dir := range h.groups.Dirs(h.group) {
		for file, want := range map[string]string{"cpu.weight": "33", "cpu.shares": "337"} {
			got, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				continue // of the other version
			}
			if found = append(found, file); strings.TrimSpace(string(got)) != want {
				t.Errorf("%s of %s is %s, want %s", file, dir, got, want)
			}
		}
	}
	if len(found) != 1 || !slices.Contains([]string{"cpu.weight", "cpu.shares"}, found[0]) {
		t.Errorf("files of the weight: %q, want one", found)
	}
}
