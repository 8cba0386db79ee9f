// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
)

// run runs the program in a container and returns what it wrote.
func (b *lab) run(name string, args ...string) (string, int) {
	b.t.Helper()
	var out bytes.Buffer
	code, err := b.Exec(b.t.Context(), name, append([]string{program}, args...), Streams{Out: &out, Err: &out})
	if err != nil {
		b.t.Fatal(err)
	}
	return out.String(), code
}

func TestACommandRunsInTheContainerAndItsCodeComesBack(t *testing.T) {
	b := newLab(t)
	s := b.spec("one", "wait")
	s.Hostname = "inside"
	s.Shadows = map[string][]byte{"/proc/sys/kernel/random/boot_id": []byte("mine\n")}
	b.start(s)
	for what, tc := range map[string]struct {
		args []string
		want string
		code int
	}{
		"its hostname":       {[]string{"cat", "/proc/sys/kernel/hostname"}, "inside\n", 0},
		"a shadow":           {[]string{"cat", "/proc/sys/kernel/random/boot_id"}, "mine\n", 0},
		"no such file":       {[]string{"cat", "/nothing"}, "open /nothing: no such file or directory\n", 1},
		"the host's setting": {[]string{"write", "/proc/sys/kernel/panic", "1"}, "open /proc/sys/kernel/panic: read-only file system\n", 1},
		"its own setting":    {[]string{"write", "/proc/sys/net/ipv4/ip_forward", "1"}, "", 0},
		"its groups":         {[]string{"cat", "/proc/self/cgroup"}, "", 0},
	} {
		got, code := b.run("one", tc.args...)
		if what == "its groups" {
			if strings.Contains(got, b.identity) {
				t.Errorf("%s: it sees %s", what, got)
			}
			continue
		}
		if got != tc.want || code != tc.code {
			t.Errorf("%s: got %q, %d", what, got, code)
		}
	}
}

func TestACommandEndsWithItsContext(t *testing.T) {
	b := newLab(t)
	b.start(b.spec("one", "wait"))
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error)
	var out signalling
	out.wrote = make(chan struct{})
	go func() {
		_, err := b.Exec(ctx, "one", []string{program, "stay"}, Streams{Out: &out})
		ended <- err
	}()
	<-out.wrote
	why := errors.New("enough")
	cancel(why)
	if err := <-ended; !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

// signalling sends when something is written.
type signalling struct{ wrote chan struct{} }

func (s *signalling) Write(b []byte) (int, error) {
	close(s.wrote)
	return len(b), nil
}

// hold copies this program to heldProgram, and stops the first process that starts
// it before it executes the program. It prints the capabilities of that process and
// its open files other than pipes.
func hold() error {
	text, err := os.ReadFile(program)
	if err == nil {
		err = atomicfile.WriteProgram(heldProgram, text)
	}
	if err != nil {
		return err
	}
	leased, err := os.Open(heldProgram)
	if err != nil {
		return err
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, unix.SIGIO)
	if _, err := unix.FcntlInt(leased.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		return fmt.Errorf("lease %s: %w", heldProgram, err)
	}
	fmt.Println("holds")
	<-asked
	status, err := filepath.Glob("/proc/[0-9]*/status")
	status = slices.DeleteFunc(status, func(file string) bool { return file == "/proc/1/status" })
	if err != nil || len(status) != 1 {
		return fmt.Errorf("got processes %v, %v, want one", status, err)
	}
	text, err = os.ReadFile(status[0])
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if rights, ok := strings.CutPrefix(line, "CapPrm:"); ok {
			fmt.Println("may", strings.TrimSpace(rights))
		}
	}
	open, err := filepath.Glob(filepath.Dir(status[0]) + "/fd/*")
	for _, fd := range open {
		if to, err := os.Readlink(fd); err == nil && !strings.HasPrefix(to, "pipe:") {
			fmt.Println("has", to)
		}
	}
	fmt.Println("held")
	return errors.Join(err, leased.Close(), inContainer("wait", nil))
}

// TestACommandHasTheRightsOfItsContainerBeforeItRuns: a process of the container can
// trace it from its first moment on.
func TestACommandHasTheRightsOfItsContainerBeforeItRuns(t *testing.T) {
	b := newLab(t)
	b.start(b.spec("one", "hold"))
	b.awaitConsole("one", "holds")
	// A file that this process did not open for itself alone is not passed on.
	leaked, err := unix.Open(b.dir, unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(leaked) }()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if code, err := b.Exec(ctx, "one", []string{heldProgram, "x"}, Streams{}); err != nil || code != 1 { // the program gets an unknown argument
		t.Errorf("the command returned %d, %v", code, err)
	}
	b.awaitConsole("one", "held")
	text, err := os.ReadFile(filepath.Join(b.folder("one"), "console.log"))
	if err != nil {
		t.Fatal(err)
	}
	var may uint64
	sockets := 0 // one connects it to the process that waits for it, which reads two numbers from it
	for line := range strings.Lines(string(text)) {
		if rights, ok := strings.CutPrefix(line, "may "); ok {
			if may, err = strconv.ParseUint(strings.TrimSpace(rights), 16, 64); err != nil {
				t.Fatal(err)
			}
		}
		if file, ok := strings.CutPrefix(strings.TrimSpace(line), "has "); ok && file != os.DevNull {
			if !strings.HasPrefix(file, "socket:") || sockets > 0 {
				t.Errorf("it has %s", file)
			}
			sockets++
		}
	}
	const dropped = 1<<unix.CAP_SYS_MODULE | 1<<unix.CAP_SYS_RAWIO | 1<<unix.CAP_SYS_TIME
	if may == 0 || may&dropped != 0 {
		t.Errorf("it has the rights %#x:\n%s", may, text)
	}
}

func TestACommandNeedsAContainerThatRuns(t *testing.T) {
	b := newLab(t)
	if err := b.Create(t.Context(), b.spec("one", "wait")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Exec(t.Context(), "one", []string{program}, Streams{}); !errors.Is(err, ErrNotRunning) {
		t.Errorf("got %v", err)
	}
	if _, err := b.Exec(t.Context(), "two", []string{program}, Streams{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
}
