// SPDX-License-Identifier: Apache-2.0

package containerproc

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
)

func TestLookUpSearchesPathOfContainer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	err := errors.Join(os.MkdirAll(filepath.Join(one, "tool"), 0o755), os.Mkdir(two, 0o755), os.WriteFile(filepath.Join(one, "text"), nil, 0o644),
		atomicfile.WriteProgram(filepath.Join(two, "tool"), nil), os.Symlink("tool", filepath.Join(two, "link")))
	if err != nil {
		t.Fatal(err)
	}
	both := "PATH=" + one + ":" + two
	for name, tc := range map[string]struct {
		program string
		env     []string
		want    string // "" if there is none
	}{
		"a folder is none":           {"tool", []string{both}, two + "/tool"},
		"by a link":                  {"link", []string{both}, two + "/link"},
		"not executable":             {"text", []string{both}, ""},
		"the last PATH counts":       {"tool", []string{both, "PATH=" + one}, ""},
		"another variable":           {"tool", []string{"MYPATH=" + two, "PATH=" + one}, ""},
		"a path is not searched":     {"./tool", nil, "./tool"},
		"an absolute one, neither":   {"/none", []string{both}, "/none"},
		"relative to the root":       {"tool", []string{"PATH=:" + strings.TrimPrefix(two, "/")}, two + "/tool"},
		"without PATH, the standard": {"sh", nil, "/"},
	} {
		got, err := lookUp(tc.program, tc.env)
		if (err == nil) != (tc.want != "") || !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, tc.want)
		}
		if err != nil && !strings.Contains(err.Error(), `"`+tc.program+`" is not a program of the image: it is in none of `) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestExplainNamesTheRemedy with the errors of the kernel for programs that do not run.
func TestExplainNamesTheRemedy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script, text, closed := filepath.Join(dir, "script"), filepath.Join(dir, "text"), filepath.Join(dir, "closed")
	err := errors.Join(atomicfile.WriteProgram(script, []byte("#!/nonexistent/sh\n")), atomicfile.WriteProgram(text, []byte("text")), os.WriteFile(closed, nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for program, tc := range map[string]struct {
		errno unix.Errno
		want  string
	}{
		script:                          {unix.ENOENT, "its interpreter is not in the image: "},
		filepath.Join(dir, "none"):      {unix.ENOENT, "the image has no such file: "},
		filepath.Join(script, "no dir"): {unix.ENOTDIR, "the image has no such file: "},
		closed:                          {unix.EACCES, "the user of the container may not execute it: "},
		text:                            {unix.ENOEXEC, "it is for another architecture or is no program: "},
	} {
		run := (&exec.Cmd{Path: program}).Run()
		if !errors.Is(run, tc.errno) {
			t.Errorf("%s: the kernel returns %v, want %v", program, run, tc.errno)
		}
		if got := explain(program, tc.errno); !errors.Is(got, tc.errno) || !strings.HasPrefix(got.Error(), "exec "+program+": "+tc.want) {
			t.Errorf("%s: got %v, want %q", program, got, tc.want)
		}
	}
	if got := explain("/x", unix.ENOMEM); got.Error() != "exec /x: cannot allocate memory" {
		t.Errorf("another error: %v", got)
	}
}

func TestExitCodeHasSignal(t *testing.T) {
	t.Parallel()
	for script, want := range map[string][2]int{"exit 0": {0, 0}, "exit 7": {7, 0}, "kill -TERM $$": {143, 15}, "kill -KILL $$": {137, 9}} {
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script)
		_ = cmd.Run() // its state has the result
		if code, signal := ExitCode(cmd.ProcessState); [2]int{code, signal} != want {
			t.Errorf("%s: got %d, %d, want %v", script, code, signal, want)
		}
	}
}

// TestBoundedErrorFitsMessage: also if each of its bytes is escaped.
func TestBoundedErrorFitsMessage(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"short": "no disk", "long": strings.Repeat("x", 1<<20), "of control characters": strings.Repeat("\x00", 1<<20), "no UTF-8": strings.Repeat("\xff", 1<<20)} {
		got := Bounded(errors.New(text))
		if !strings.HasPrefix(text, got) || len(got) > longestError || len(text) < longestError && got != text {
			t.Errorf("%s: got %d bytes", name, len(got))
		}
		if _, _, err := Encode(struct{ Error string }{got}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestProgramOfPodCannotRaiseItsLimits, nor open all descriptors that may be sent.
func TestProgramOfPodCannotRaiseItsLimits(t *testing.T) {
	t.Parallel()
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &own); err != nil {
		t.Fatal(err)
	}
	for _, pids := range []uint64{0, 64} {
		all, err := limitsOf(Rights{PIDs: pids})
		if err != nil {
			t.Fatal(err)
		}
		got := map[uintptr]unix.Rlimit{}
		for _, l := range all {
			got[l.which] = l.Rlimit
		}
		if got[unix.RLIMIT_NICE] != (unix.Rlimit{}) || got[unix.RLIMIT_RTPRIO] != (unix.Rlimit{}) {
			t.Errorf("it can raise its weight: %+v", got)
		}
		if f := got[unix.RLIMIT_NOFILE]; f.Max != own.Max/2 || f.Cur > f.Max {
			t.Errorf("files: %+v of %+v", f, own)
		}
		if p, limited := got[unix.RLIMIT_NPROC]; limited != (pids > 0) || p.Max != pids || p.Cur != pids {
			t.Errorf("processes: %+v, want %d", p, pids)
		}
	}
}

func TestSessionsAreSharedWhereWeighed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		autogroup int
		terminal  bool
		want      bool
	}{
		"not weighed":        {0, false, true},
		"not, by a terminal": {0, true, true},
		"weighed":            {10, false, false},
		"for a terminal":     {10, true, true},
	} {
		if got := OwnSession(tc.autogroup, tc.terminal); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
	if err := LowerSession("none", 0); err != nil {
		t.Errorf("a session that is not weighed: %v", err)
	}
	if err := LowerSession("none", 10); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a process that does not exist: %v", err)
	}
}

// TestCommandHasNoZeroBytes: the kernel would cut the text there.
func TestCommandHasNoZeroBytes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		plan    Plan
		program string
	}{
		"its path":      {Plan{Args: []string{"a"}}, "/a\x00b"},
		"an argument":   {Plan{Args: []string{"a", "b\x00c"}}, "/a"},
		"its variables": {Plan{Args: []string{"a"}, Env: []string{"A=b\x00c"}}, "/a"},
	} {
		if _, err := newBirth(tc.plan, tc.program); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if b, err := newBirth(Plan{Args: []string{"a", "b"}, Env: []string{"A=b"}, Terminal: true}, "/a"); err != nil || len(b.args) != 3 || b.args[2] != nil || len(b.env) != 2 || !b.session || !b.terminal {
		t.Errorf("got %+v, %v", b, err)
	}
}
