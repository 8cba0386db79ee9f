// SPDX-License-Identifier: Apache-2.0

// Package planes runs management planes as separate processes, and measures them.
//
// It reads the request counters of their API servers.
package planes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// A plane starts and stops in seconds; one that takes this long hangs, and
	// the run is worth nothing.
	startTimeout = 60 * time.Second
	stopTimeout  = 30 * time.Second

	// clockTicks is USER_HZ, the unit of CPU times in /proc.
	clockTicks = 100
)

// Process is a running "capstan up".
type Process struct {
	cmd    *exec.Cmd
	exited chan error
	// Ready is how long the start took.
	Ready time.Duration
	// Peak is the most memory that it has occupied, in bytes.
	Peak  atomic.Int64
	watch context.CancelFunc
	// Gone is closed when the process has exited.
	Gone chan struct{}
}

// Start returns when the plane is ready.
func Start(ctx context.Context, binary, dir string, flags []string) (*Process, error) {
	p := &Process{exited: make(chan error, 1), Gone: make(chan struct{})}
	args := append([]string{"up", "--data-dir=" + dir, "--listen=127.0.0.1:0", "--metrics-address=127.0.0.1:0", "--insecure-diagnostics"}, flags...)
	p.cmd = exec.Command(binary, args...)
	p.cmd.Stderr = os.Stderr
	p.cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+dir) // where its simulated machines are kept
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	ready := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(stdout)
		if lines.Scan() {
			p.Ready = time.Since(begin)
			close(ready)
		}
		p.exited <- p.cmd.Wait()
		close(p.Gone)
	}()
	sampling, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p.watch = cancel
	go p.sample(sampling)
	select {
	case <-ready:
		return p, nil
	case err := <-p.exited:
		p.exited <- err
		return nil, fmt.Errorf("%s up: %w", binary, err)
	case <-time.After(startTimeout):
		return nil, errors.Join(fmt.Errorf("%s up: not ready in %s", binary, startTimeout), p.Stop())
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), p.Stop())
	}
}

// Stop interrupts the process and waits for its end.
func (p *Process) Stop() error {
	defer p.watch()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case err := <-p.exited:
		return err
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill()
		return fmt.Errorf("the plane has not stopped in %s", stopTimeout)
	}
}

// Kill ends the process as a crash would, and waits for its end.
func (p *Process) Kill() error {
	defer p.watch()
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.Gone
	return nil
}

// sample keeps the peak of the resident memory.
func (p *Process) sample(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if n, err := p.Resident(); err == nil && n > p.Peak.Load() {
				p.Peak.Store(n)
			}
		}
	}
}

// PID is the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Resident is the memory that the process occupies now, in bytes.
func (p *Process) Resident() (int64, error) { return Resident(p.PID()) }

// CPU is the processor time that the process has used, in seconds.
func (p *Process) CPU() (float64, error) { return CPU(p.PID()) }

// Resident is the memory that a process occupies now, in bytes.
func Resident(pid int) (int64, error) {
	file := proc(pid, "statm")
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0, fmt.Errorf("read %s: %q", file, b)
	}
	pages, err := strconv.ParseInt(f[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// CPU is the processor time that a process has used, in seconds.
func CPU(pid int) (float64, error) {
	b, err := os.ReadFile(proc(pid, "stat"))
	if err != nil {
		return 0, err
	}
	// The second field is the name in parentheses and may contain blanks.
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0, fmt.Errorf("read %s: %q", proc(pid, "stat"), b)
	}
	user, err1 := strconv.ParseFloat(f[11], 64)
	system, err2 := strconv.ParseFloat(f[12], 64)
	return (user + system) / clockTicks, errors.Join(err1, err2)
}

func proc(pid int, file string) string { return filepath.Join("/proc", strconv.Itoa(pid), file) }

// Pause returns after a time, immediately if that is 0 or less, or earlier with the
// error of a context that ends.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
