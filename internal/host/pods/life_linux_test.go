// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
)

func TestCheckReportsSandboxMode(t *testing.T) {
	r := Check(soon(t), t.TempDir())
	want := Root
	if os.Geteuid() != 0 {
		want = Rootless
	}
	if r.Mode != want || want == Root && len(r.Missing) > 0 {
		t.Errorf("got %+v, want %s", r, want)
	}
	for _, m := range r.Missing {
		if m.What == "" || m.Why == "" || m.Remedy == "" {
			t.Errorf("got %+v: something is not said", m)
		}
	}
}

func TestAContainerIsAlone(t *testing.T) {
	s := start(t, open(t, Options{}))
	out, _, e := outcome(t, s, container(t, "ids"))
	if want := "1 65532 65532 " + groups(t) + "\n"; out != want || e.Code != 0 {
		t.Errorf("got %q, %+v, want %q", out, e, want)
	}
	status, _, _ := outcome(t, s, container(t, "status"))
	for _, want := range []string{"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(status, want) {
			t.Errorf("the status of a container lacks %q:\n%s", want, status)
		}
	}
}

func TestOutputAndExitAreReported(t *testing.T) {
	s := start(t, open(t, Options{}))
	tests := map[string]struct {
		args       []string
		out, error string
		code       int
	}{
		"what it says":        {args: []string{"echo", "a", "b"}, out: "a b\n"},
		"errors apart":        {args: []string{"stderr", "bad"}, error: "bad\n"},
		"what it returns":     {args: []string{"exit"}, code: 7},
		"its variables alone": {args: []string{"env"}, out: "PATH=/bin\nA=b\n"},
		"its host name":       {args: []string{"cat", "/etc/hostname", "/proc/sys/kernel/hostname"}, out: "test\ntest\n"},
		"its resolver":        {args: []string{"cat", "/etc/resolv.conf"}, out: "nameserver 10.96.0.10\n"},
		"no input":            {args: []string{"cat"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			out, errors, e := outcome(t, s, container(t, tc.args...))
			if out != tc.out || errors != tc.error || e.Code != tc.code || e.Signal != 0 || e.Message != "" || e.At.IsZero() {
				t.Errorf("got %q, %q, %+v, want %q, %q, %d", out, errors, e, tc.out, tc.error, tc.code)
			}
		})
	}
}

func TestWhatCannotBeginSaysWhy(t *testing.T) {
	s := start(t, open(t, Options{}))
	tests := map[string]struct {
		change func(*Container)
		want   string
	}{
		"no such program":      {func(c *Container) { c.Args = []string{"nothing"} }, `"nothing" is not a program of the image: it is in none of /bin`},
		"no such path":         {func(c *Container) { c.Args = []string{"/nothing"} }, "exec /nothing: the image has no such file: correct the command"},
		"no such folder":       {func(c *Container) { c.Dir = "/nowhere" }, "enter the working directory /nowhere"},
		"no such image":        {func(c *Container) { c.Root += "-gone" }, "take the image"},
		"no such source":       {func(c *Container) { c.Mounts = []Mount{{Source: "/gone", Target: "/x"}} }, "mount /x"},
		"another architecture": {func(c *Container) { put(t, c, "bin/other", "not a program"); c.Args = []string{"other"} }, "it is for another architecture or is no program"},
		"no interpreter":       {func(c *Container) { put(t, c, "bin/script", "#!/bin/sh\n"); c.Args = []string{"script"} }, "its interpreter is not in the image"},
		"no program":           {func(c *Container) { c.Args = nil }, "Args: want a program"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := container(t, "echo")
			tc.change(&c)
			if _, err := s.Run(soon(t), c); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	if out, _, _ := outcome(t, s, container(t, "echo", "fine")); out != "fine\n" {
		t.Errorf("after those, got %q", out)
	}
}

func put(t testing.TB, c *Container, name, text string) {
	t.Helper()
	file := filepath.Join(c.Root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), atomicfile.WriteProgram(file, []byte(text))); err != nil {
		t.Fatal(err)
	}
}

// groups are those that a container has in addition to its own: none, except if a
// plain user runs it, since that user cannot drop any. The container has no files
// of the host on which it could use them.
func groups(t *testing.T) string {
	t.Helper()
	all, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		all = nil
	}
	for i, g := range all {
		all[i] = 65534 // the kernel's id for groups that are not in a namespace
		if g == os.Getegid() {
			all[i] = 65532
		}
	}
	return fmt.Sprint(all)
}

func TestCommandsRunInAContainer(t *testing.T) {
	s := start(t, open(t, Options{}))
	if _, err := s.Run(t.Context(), container(t, "sleep")); err != nil {
		t.Fatal(err)
	}
	out, code := command(t, s, "ids")
	if fields := strings.SplitN(out, " ", 2); len(fields) != 2 || fields[0] == "1" || fields[1] != "65532 65532 "+groups(t)+"\n" || code != 0 {
		t.Errorf("got %q, %d", out, code)
	}
	status, _ := command(t, s, "status")
	for _, want := range []string{"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(status, want) {
			t.Errorf("the status of a command lacks %q:\n%s", want, status)
		}
	}
	if _, code := command(t, s, "exit"); code != 7 {
		t.Errorf("got %d, want 7", code)
	}
	var got bytes.Buffer
	if _, err := s.Exec(t.Context(), "c", []string{"probe", "cat"}, Streams{Stdin: strings.NewReader("through"), Stdout: &got}); err != nil || got.String() != "through" {
		t.Errorf("got %q, %v", got.String(), err)
	}
	if _, err := s.Exec(t.Context(), "c", []string{"nothing"}, Streams{}); err == nil || !strings.Contains(err.Error(), "is not a program of the image") {
		t.Errorf("got %v", err)
	}
	if _, err := s.Exec(t.Context(), "other", []string{"probe"}, Streams{}); err == nil || !strings.Contains(err.Error(), "it does not run") {
		t.Errorf("got %v", err)
	}
}

func TestACommandEndsWithItsContext(t *testing.T) {
	s := start(t, open(t, Options{}))
	if _, err := s.Run(t.Context(), container(t, "sleep")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	failed := make(chan error, 1)
	go func() {
		_, err := s.Exec(ctx, "c", []string{"probe", "stubborn"}, Streams{Stdout: w})
		failed <- err
	}()
	until(t, r, "ready\n")
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	// Only the container's own process and the one that asks remain.
	for deadline := time.Now().Add(10 * time.Second); ; {
		out, code := command(t, s, "processes")
		if out == "2\n" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%q processes are left, want 2 (%d)", out, code)
		}
	}
}

func TestATerminalHasASize(t *testing.T) {
	s := start(t, open(t, Options{}))
	if _, err := s.Run(t.Context(), container(t, "sleep")); err != nil {
		t.Fatal(err)
	}
	sizes := make(chan Size, 1)
	sizes <- Size{Height: 33, Width: 99}
	r, w := io.Pipe()
	in, say := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		code, err := s.Exec(t.Context(), "c", []string{"probe", "size"}, Streams{Stdin: in, Stdout: w, TTY: true, Resize: sizes})
		if err != nil {
			t.Error(err)
		}
		ended <- code
	}()
	until(t, r, "33 99")
	go func() { _, _ = io.Copy(io.Discard, r) }()
	if err := say.Close(); err != nil {
		t.Fatal(err)
	}
	if code := <-ended; code != 0 {
		t.Errorf("got %d", code)
	}
}

func TestSignalsReachAContainer(t *testing.T) {
	s := start(t, open(t, Options{}))
	p, err := s.Run(t.Context(), container(t, "term"))
	if err != nil {
		t.Fatal(err)
	}
	until(t, p.Stdout(), "ready\n")
	if err := p.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if e := p.Wait(); e.Code != 0 || all(t, p.Stdout()) != "asked to end\n" {
		t.Errorf("got %+v", e)
	}
	if err := p.Signal(unix.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("got %v", err)
	}
}

func TestStopAsksAndThenEnds(t *testing.T) {
	s := start(t, open(t, Options{}))
	willing, stubborn := container(t, "term"), container(t, "stubborn")
	stubborn.Name = "d"
	a, err := s.Run(t.Context(), willing)
	if err != nil {
		t.Fatal(err)
	}
	special := container(t, "term")
	special.Name, special.StopSignal = "e", unix.SIGUSR1
	other, err := s.Run(t.Context(), special)
	if err != nil {
		t.Fatal(err)
	}
	until(t, other.Stdout(), "ready\n")
	b, err := s.Run(t.Context(), stubborn)
	if err != nil {
		t.Fatal(err)
	}
	until(t, a.Stdout(), "ready\n")
	until(t, b.Stdout(), "ready\n")
	if err := s.Stop(soon(t), 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if e := a.Wait(); e.Code != 0 || e.Message != "" {
		t.Errorf("what listens: got %+v", e)
	}
	if e := other.Wait(); e.Code != 0 || all(t, other.Stdout()) != "asked by another signal\n" {
		t.Errorf("what has a signal of its own: got %+v", e)
	}
	if e := b.Wait(); e.Signal != int(unix.SIGKILL) {
		t.Errorf("what does not: got %+v", e)
	}
	if _, err := s.Run(t.Context(), willing); err == nil {
		t.Error("a stopped sandbox runs a container")
	}
	if err := s.Stop(soon(t), 0); err != nil {
		t.Error(err)
	}
}

func TestSlowReadersLoseTheOldest(t *testing.T) {
	s := start(t, open(t, Options{Kept: 64 << 10}))
	out, _, e := outcome(t, s, container(t, "flood"))
	if e.Code != 0 || len(out) > 65<<10 || !strings.HasPrefix(out, "[") || !strings.Contains(out, "bytes are lost") || !strings.HasSuffix(out, "\nlast\n") {
		t.Errorf("got %d bytes, %+v: %.80q", len(out), e, out)
	}
}

func TestInputIsKeptOpen(t *testing.T) {
	s := start(t, open(t, Options{}))
	c := container(t, "cat")
	c.Stdin = true
	p, err := s.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(p.Stdin(), "typed"); err != nil {
		t.Fatal(err)
	}
	if err := p.Stdin().Close(); err != nil {
		t.Fatal(err)
	}
	if e := p.Wait(); e.Code != 0 || all(t, p.Stdout()) != "typed" {
		t.Errorf("got %+v", e)
	}
}
