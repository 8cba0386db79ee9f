// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestEnding(t *testing.T) {
	const exited1, killed, poweredOff = syscall.WaitStatus(1 << 8), syscall.WaitStatus(9), syscall.WaitStatus(2)
	for name, tc := range map[string]struct {
		how   syscall.WaitStatus
		asked bool
		err   error
		want  State
	}{
		"it returned":              {exited1, false, nil, State{ExitCode: 1, Message: "its first process returned 1"}},
		"it returned when asked":   {exited1, true, nil, State{ExitCode: 1}},
		"it was killed":            {killed, false, nil, State{ExitCode: 137, Message: "its first process was ended by signal 9 (killed)"}},
		"it powered off":           {poweredOff, false, nil, State{Message: "it powered off"}},
		"its groups stay, however": {0, true, errors.New("busy"), State{Message: "busy"}},
	} {
		if got := ending(tc.how, tc.asked, tc.err); got != tc.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tc.want)
		}
	}
}

func TestNoLinkLeadsOut(t *testing.T) {
	outside, root := t.TempDir(), t.TempDir()
	err := errors.Join(os.Mkdir(filepath.Join(root, "in"), 0o755), os.Symlink(outside, filepath.Join(root, "absolute")),
		os.Symlink("../../../../../../../../../.."+outside, filepath.Join(root, "dots")), os.Symlink("/in", filepath.Join(root, "inside")))
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	for p, want := range map[string]string{"/inside/a/b": "in/a/b", "/x/y": "x/y"} {
		made, err := makeFile(fd, p)
		if err != nil {
			t.Errorf("%s: %v", p, err)
			continue
		}
		_ = unix.Close(made)
		if _, err := os.Stat(filepath.Join(root, want)); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
	for _, p := range []string{"/absolute/new", "/dots/new"} {
		if _, err := makeFile(fd, p); err == nil {
			t.Errorf("%s was made", p)
		}
	}
	if all, err := os.ReadDir(outside); err != nil || len(all) > 0 {
		t.Errorf("outside: %v, %v", all, err)
	}
}

func TestTheConsoleIsBoundedAndKeepsTheEnd(t *testing.T) {
	t.Chdir(t.TempDir())
	c := openConsole(100)
	for range 30 {
		if n, err := c.Write([]byte("0123456789\r\n")); n != 12 || err != nil {
			t.Fatal(n, err)
		}
	}
	older, err := os.ReadFile(OlderFile)
	newer, nerr := os.ReadFile(ConsoleFile)
	if err := errors.Join(err, nerr); err != nil || len(older) != 50 || len(newer) > 50 || !strings.HasSuffix(string(older)+string(newer), "9\n0123456789\n") {
		t.Errorf("got %q and %q, %v", older, newer, err)
	}
}

func TestAFileIsThereAsAWholeForItsOwnerAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.json")
	for _, content := range []string{"one", "two"} {
		if err := WriteFile(file, []byte(content)); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		info, serr := os.Stat(file)
		if err := errors.Join(err, serr); err != nil || string(text) != content || info.Mode().Perm() != 0o600 {
			t.Errorf("got %q, %v, %v", text, info, err)
		}
	}
	if all, err := os.ReadDir(filepath.Dir(file)); err != nil || len(all) != 1 {
		t.Errorf("left: %v, %v", all, err)
	}
}
