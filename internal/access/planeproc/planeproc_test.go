// SPDX-License-Identifier: Apache-2.0

package planeproc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestMain is the program that the tests start: this one, with its part as an argument.
func TestMain(m *testing.M) {
	if part := os.Getenv("PLANEPROC_PART"); part != "" {
		play(part)
	}
	os.Exit(m.Run())
}

// play is a plane that behaves in some way.
func play(part string) {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	switch part {
	case "ready":
		fmt.Println("ready with", os.Args[1:])
		fmt.Println("more")
		<-stop
		os.Exit(0)
	case "fails late":
		fmt.Println("ready")
		<-stop
		fmt.Fprintln(os.Stderr, "the store is full")
		os.Exit(3)
	case "fails":
		fmt.Fprintln(os.Stderr, "port 6443 is in use")
		os.Exit(1)
	case "exits":
		os.Exit(4)
	case "long line":
		fmt.Println("ready")
		for range 100 { // more than a scanner takes, and than a pipe holds
			fmt.Println(strings.Repeat("x", 128<<10))
		}
		os.Exit(0)
	case "environment":
		fmt.Println(os.Environ(), os.Args[1:])
		os.Exit(0)
	default:
		<-stop // never ready
		os.Exit(0)
	}
}

// up starts this program as a plane.
func up(ctx context.Context, t *testing.T, part string, flags ...string) (*Process, error) {
	t.Helper()
	t.Setenv("PLANEPROC_PART", part)
	p, err := Up(ctx, os.Args[0], flags...)
	if err == nil {
		t.Cleanup(p.Kill)
	}
	return p, err
}

func TestUpReturnsReadyLine(t *testing.T) {
	p, err := up(t.Context(), t, "ready", "--a=b", "c")
	if err != nil {
		t.Fatal(err)
	}
	if want := "ready with [up --a=b c]"; p.Ready != want {
		t.Errorf("ready line %q, want %q", p.Ready, want)
	}
	if said, exited := p.Exit(); exited {
		t.Errorf("it has exited: %s", said)
	}
	if err := syscall.Kill(p.PID(), 0); err != nil {
		t.Errorf("process %d: %v", p.PID(), err)
	}
	if err := p.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if err := p.Stop(); err != nil {
		t.Errorf("stop again: %v", err)
	}
	if said, exited := p.Exit(); !exited || said != "exit status 0: " {
		t.Errorf("exit %q, %t", said, exited)
	}
}

func TestUpReportsWhyPlaneExited(t *testing.T) {
	for part, want := range map[string]string{"fails": "port 6443 is in use", "exits": "exit status 4"} {
		if p, err := up(t.Context(), t, part); err == nil || err.Error() != want {
			t.Errorf("%s: %v, error %v, want %s", part, p, err, want)
		}
	}
	_, err := Up(t.Context(), "/no/such/program")
	if err == nil || !strings.HasPrefix(err.Error(), "start /no/such/program: ") || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of no program: %v", err)
	}
}

func TestUpEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := up(ctx, t, "silent"); err == nil || !strings.HasPrefix(err.Error(), "not ready in time") {
		t.Errorf("error %v", err)
	}
}

func TestStopReportsFailureOfPlane(t *testing.T) {
	p, err := up(t.Context(), t, "fails late")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(); err == nil || err.Error() != "the management plane ended with exit status 3: the store is full" {
		t.Errorf("stop: %v", err)
	}
	if said, exited := p.Exit(); !exited || said != "exit status 3: the store is full" {
		t.Errorf("exit %q, %t", said, exited)
	}
}

func TestKillEndsProcessAtOnce(t *testing.T) {
	p, err := up(t.Context(), t, "ready")
	if err != nil {
		t.Fatal(err)
	}
	p.Kill()
	p.Kill() // it is not running any longer
	if said, exited := p.Exit(); !exited || said != "signal: killed: " {
		t.Errorf("exit %q, %t", said, exited)
	}
}

// TestLongLinesDoNotBlockProcess: a process that nothing reads from would wait forever.
func TestLongLinesDoNotBlockProcess(t *testing.T) {
	p, err := up(t.Context(), t, "long line")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
}

// lockedBuffer is a log that two goroutines write to.
type lockedBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func TestRunHasOnlyGivenEnvironment(t *testing.T) {
	t.Setenv("PLANEPROC_SECRET", "inherited")
	var log lockedBuffer
	p, err := Run(os.Args[0], []string{"PLANEPROC_PART=environment", "A=b"}, &log, "--flag")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
	if got, want := log.all.String(), "[PLANEPROC_PART=environment A=b] [--flag]\n"; got != want {
		t.Errorf("log %q, want %q", got, want)
	}
	if _, err := Run("/no/such/program", nil, &log); err == nil || !strings.HasPrefix(err.Error(), "start /no/such/program: ") {
		t.Errorf("of no program: %v", err)
	}
}
