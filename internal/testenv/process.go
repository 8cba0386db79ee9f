// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// stopTimeout is how long a plane may take to stop; it needs about a second.
const stopTimeout = 30 * time.Second

// Binary returns the path of the capstan program, built from this tree.
func Binary(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the program, which -short leaves out")
	}
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// build links the program where and how the Makefile does, so that it is
// linked once for both. Test binaries of several packages take turns.
var build = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("CAPSTAN_TEST_BINARY"); path != "" {
		return path, nil
	}
	dir, err := root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "bin", "capstan")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	turn, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { _ = turn.Close() }()
	if err := unix.Flock(int(turn.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("take turns at building: %w", err)
	}
	cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", path, "./cmd/capstan")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build capstan: %w\n%s", err, out)
	}
	return path, nil
})

// Process is "capstan up" in the foreground.
type Process struct {
	// Ready is the line that it printed when it was ready.
	Ready  string
	cmd    *exec.Cmd
	exited chan struct{} // closed when err is set
	err    error
	stderr *bytes.Buffer // to be read when exited is closed
}

// Up starts "capstan up" with the flags and waits until it is ready. The test
// kills it at its end if it has not stopped it.
func Up(t testing.TB, flags ...string) (*Process, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	p, err := up(ctx, Binary(t), flags...)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { p.Kill() })
	return p, nil
}

func up(ctx context.Context, binary string, flags ...string) (*Process, error) {
	p := &Process{exited: make(chan struct{}), stderr: &bytes.Buffer{}}
	p.cmd = exec.Command(binary, append([]string{"up"}, flags...)...)
	p.cmd.Stderr = p.stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	ready, started := make(chan string, 1), make(chan error, 1)
	go func() {
		// A plane must not outlive a test binary that is killed. The kernel
		// ties that to the thread that started it, so the thread must stay.
		runtime.LockOSThread()
		p.cmd.SysProcAttr = dieWithParent()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			select {
			case ready <- lines.Text():
			default: // only the first line is awaited
			}
		}
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	select {
	case p.Ready = <-ready:
		return p, nil
	case <-p.exited:
		return nil, fmt.Errorf("%s", strings.TrimSpace(p.stderr.String()))
	case <-ctx.Done():
		p.Kill()
		return nil, fmt.Errorf("not ready in time: %s", strings.TrimSpace(p.stderr.String()))
	}
}

// PID is the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop interrupts the process and waits for its end.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return p.Wait()
}

// Wait waits for the end of the process, which it kills if that takes too
// long.
func (p *Process) Wait() error {
	select {
	case <-p.exited:
	case <-time.After(stopTimeout):
		p.Kill()
		return fmt.Errorf("the management plane has not stopped in %s", stopTimeout)
	}
	if p.err != nil {
		return fmt.Errorf("the management plane ended with %w: %s", p.err, strings.TrimSpace(p.stderr.String()))
	}
	return nil
}

// Kill ends the process as a crash would.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may be gone already
	<-p.exited
}
