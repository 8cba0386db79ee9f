// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
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

func TestAStateThatIsWrittenOverALongerOneIsRead(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, StateFile)
	err := errors.Join(
		os.WriteFile(file, []byte(`{"Running":true,"PID":123456,"Message":"a long one","HostBoot":"b"}`), 0o600),
		overwrite(file, []byte(`{"Ended":true,"HostBoot":"b"}`)),
	)
	got, rerr := ReadState(dir)
	if want := (State{Ended: true, HostBoot: "b"}); errors.Join(err, rerr) != nil || got != want {
		t.Errorf("got %+v, %v, %v, want %+v", got, err, rerr, want)
	}
	if err := overwrite(filepath.Join(dir, "none"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestRebootsInALoopComeSeldom(t *testing.T) {
	for name, tc := range map[string]struct{ ran, last, want time.Duration }{
		"an ordinary reboot":       {time.Hour, 0, 0},
		"too soon":                 {time.Second, 0, time.Second},
		"too soon again":           {time.Second, 4 * time.Second, 8 * time.Second},
		"too soon for a long time": {time.Second, 29 * time.Second, 30 * time.Second},
		"repaired":                 {time.Minute, 30 * time.Second, 0},
	} {
		if got := pauseBefore(tc.ran, tc.last); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}

// TestConsoleResumesItsFile: a supervisor of a later start appends, and a broken file
// stops no container.
func TestConsoleResumesItsFile(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, text := range []string{"12345", "67890"} {
		c := openConsole(16)
		if n, err := c.Write([]byte(text)); n != len(text) || err != nil {
			t.Fatal(n, err)
		}
	}
	newer, err := os.ReadFile(ConsoleFile)
	older, oerr := os.ReadFile(OlderFile)
	if string(older)+string(newer) != "1234567890" || len(older) != 8 || errors.Join(err, oerr) != nil {
		t.Errorf("got %q and %q, %v, %v", older, newer, err, oerr)
	}
	c := openConsole(16)
	if err := c.file.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Write([]byte(strings.Repeat("x", 100))); n != 100 || err != nil {
		t.Errorf("a broken file: got %d, %v", n, err)
	}
	if err := errors.Join(os.Remove(ConsoleFile), os.Mkdir(ConsoleFile, 0o700)); err != nil {
		t.Fatal(err)
	}
	if n, err := openConsole(16).Write([]byte("x")); n != 1 || err != nil {
		t.Errorf("no file: got %d, %v", n, err)
	}
}

// TestConsoleTerminalKeepsOutput: it neither changes output nor echoes it as input.
func TestConsoleTerminalKeepsOutput(t *testing.T) {
	ours, theirs, err := openConsoleTerminal()
	if err != nil {
		t.Skipf("there is no terminal here: %v", err)
	}
	defer func() { _ = ours.Close() }()
	if _, err := theirs.WriteString("a\n\tb"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 16)
	if n, err := ours.Read(got); err != nil || string(got[:n]) != "a\n\tb" {
		t.Errorf("got %q, %v", got[:n], err)
	}
	if _, err := ours.WriteString("in\n"); err != nil {
		t.Fatal(err)
	}
	if n, err := theirs.Read(got); err != nil || string(got[:n]) != "in\n" {
		t.Errorf("its input is %q, %v", got[:n], err)
	}
	if err := theirs.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := ours.Read(got); n > 0 || err == nil {
		t.Errorf("its input was echoed: %q, %v", got[:n], err)
	}
}

func TestReadStateNamesDamage(t *testing.T) {
	dir := t.TempDir()
	if got, err := ReadState(dir); err != nil || got != (State{}) {
		t.Errorf("of one that never started: %+v, %v", got, err)
	}
	for _, text := range []string{"", "{", `{"PID": "x"}`} {
		if err := os.WriteFile(filepath.Join(dir, StateFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadState(dir); err == nil || !strings.HasPrefix(err.Error(), "read the state of a container: ") {
			t.Errorf("%q: got %v", text, err)
		}
	}
}
