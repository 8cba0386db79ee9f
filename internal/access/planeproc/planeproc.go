// SPDX-License-Identifier: Apache-2.0

// Package planeproc runs a management plane, or a manager, as a separate process.
package planeproc

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// stopTimeout is the time limit for a plane to stop; it needs about a second.
const stopTimeout = 30 * time.Second

// Process is "capstan up" in the foreground.
type Process struct {
	// Ready is the line that it printed when it was ready.
	Ready  string
	cmd    *exec.Cmd
	exited chan struct{} // closed when err is set
	err    error
	stderr *bytes.Buffer // may be read when exited is closed
}

// Up starts "capstan up" of a program with the flags and waits until it is ready or
// ctx ends. The process is killed with this one.
func Up(ctx context.Context, binary string, flags ...string) (*Process, error) {
	p := &Process{exited: make(chan struct{}), stderr: &bytes.Buffer{}}
	p.cmd = exec.Command(binary, append([]string{"up"}, flags...)...)
	p.cmd.Stderr = p.stderr
	ready := make(chan string, 1)
	if err := p.start(func(line string) {
		select {
		case ready <- line:
		default: // only the first line is awaited
		}
	}); err != nil {
		return nil, err
	}
	select {
	case p.Ready = <-ready:
		return p, nil
	case <-p.exited:
		return nil, errors.New(cmp.Or(strings.TrimSpace(p.stderr.String()), p.cmd.ProcessState.String()))
	case <-ctx.Done():
		p.Kill()
		return nil, fmt.Errorf("not ready in time: %s", strings.TrimSpace(p.stderr.String()))
	}
}

// Run starts a program with only the given environment and does not wait until it
// is ready. Its output is written to log. The process is killed with this one.
func Run(binary string, env []string, log io.Writer, args ...string) (*Process, error) {
	p := &Process{exited: make(chan struct{}), stderr: &bytes.Buffer{}, cmd: exec.Command(binary, args...)}
	p.cmd.Env, p.cmd.Stderr = append([]string{}, env...), log
	if err := p.start(func(line string) { _, _ = fmt.Fprintln(log, line) }); err != nil {
		return nil, err
	}
	return p, nil
}

// start starts the process, and calls printed with each line of its output.
func (p *Process) start(printed func(string)) error {
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	started := make(chan error, 1)
	go recovery.Func(context.Background(), func() {
		err := recovery.Call(context.Background(), func() error {
			// A plane must not outlive a program that is killed. The kernel ties that to the
			// thread that started it, so the thread must stay.
			runtime.LockOSThread()
			p.cmd.SysProcAttr = exitWithParent()
			return p.cmd.Start()
		})
		started <- err
		if err != nil {
			return
		}
		defer close(p.exited)
		defer func() { p.err = p.cmd.Wait() }() // also if printed panics
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			printed(lines.Text())
		}
		if lines.Err() != nil { // a line that is too long: the process must not wait for a reader
			_, _ = io.Copy(io.Discard, stdout)
		}
	})()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", p.cmd.Path, err)
	}
	return nil
}

// PID is the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop interrupts the process and waits until it exits.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return p.Wait()
}

// Wait waits until the process exits, and kills it if that takes too long.
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
	_ = p.cmd.Process.Kill() // it may have exited already
	<-p.exited
}

// Exit returns what the process printed to standard error and how it exited. It returns
// false while the process runs.
func (p *Process) Exit() (string, bool) {
	select {
	case <-p.exited:
		return fmt.Sprintf("%v: %s", p.cmd.ProcessState, strings.TrimSpace(p.stderr.String())), true
	default:
		return "", false
	}
}
