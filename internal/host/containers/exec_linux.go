// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/host/containerproc"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// lateOutput is how long the output of a command is awaited after its exit:
// processes that it started may keep it open forever.
const lateOutput = 2 * time.Second

// Exec runs a command in a running container and returns its exit code, or 128 and
// the number of the signal that ended it. The command is killed when ctx ends. A
// program name without a slash is searched in /usr/local/sbin, /usr/local/bin,
// /usr/sbin, /usr/bin, /sbin and /bin of the container.
func (l *Launcher) Exec(ctx context.Context, name string, args []string, s Streams) (int, error) {
	if len(args) == 0 {
		return 0, fmt.Errorf("run a command in container %s: it is empty", name)
	}
	in, err := l.enter(name)
	if err != nil {
		return 0, fmt.Errorf("run %s in container %s: %w", args[0], name, err)
	}
	defer in.close()
	code, err := in.run(ctx, args, s)
	if err != nil {
		return 0, fmt.Errorf("run %s in container %s: %w", args[0], name, err)
	}
	return code, nil
}

// inside is a running container that can be entered.
type inside struct {
	pid     int      // of its first process, while process shows that it is still that
	process *os.File // a descriptor of that process
	groups  []string // folders of its groups of version 1
	born    *os.File // its group of version 2; nil is none
}

// enter opens a container whose first process is alive.
func (l *Launcher) enter(name string) (_ *inside, err error) {
	status, err := l.Inspect(name)
	if err != nil {
		return nil, err
	}
	if status.State != Running {
		return nil, ErrNotRunning
	}
	in := &inside{pid: status.PID}
	defer func() {
		if err != nil {
			in.close()
		}
	}()
	fd, err := unix.PidfdOpen(in.pid, 0)
	if err != nil {
		return nil, gone(err)
	}
	in.process = os.NewFile(uintptr(fd), "first process")
	// systemd in the container has moved itself to a group below: on version 2, a
	// group with groups below it accepts no process.
	own, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", in.pid))
	if err != nil {
		return nil, gone(err)
	}
	for _, t := range l.groups.Hierarchies {
		group, ok := t.Find(string(own))
		if !ok || !strings.HasPrefix(group, l.group(name)+"/") {
			return nil, ErrNotRunning // the PID has been reused
		}
		dir := filepath.Join(t.Dir, group)
		if t.Type != "cgroup2" {
			in.groups = append(in.groups, dir)
		} else if in.born, err = os.Open(dir); err != nil {
			return nil, gone(err)
		}
	}
	return in, nil
}

// gone converts the error that a process was not found to that of this package.
func gone(err error) error {
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		return ErrNotRunning
	}
	return err
}

func (in *inside) close() {
	for _, f := range []*os.File{in.process, in.born} {
		if f != nil {
			_ = f.Close() // nothing was written
		}
	}
}

// run runs a command in a process that enters the container.
func (in *inside) run(ctx context.Context, args []string, s Streams) (int, error) {
	pipes, err := containerproc.NewPipes()
	if err != nil {
		return 0, err
	}
	defer pipes.Close()
	cmd := &exec.Cmd{
		Path: containerproc.Self, Args: []string{containerproc.EnterName}, Env: containerproc.Environment, Dir: "/",
		Stdin: s.In, Stdout: s.Out, Stderr: s.Err, ExtraFiles: []*os.File{pipes.Given, pipes.Answer, in.process},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}, WaitDelay: lateOutput,
	}
	if in.born != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(in.born.Fd())
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start a process that enters it: %w", gone(err))
	}
	pipes.Passed()
	stop := context.AfterFunc(ctx, recovery.Func(ctx, func() { _ = pipes.Plan.Close() })) // ends the command
	defer stop()
	failed := pipes.Run(containerproc.Plan{Groups: in.groups, Args: args, Env: environment(nil), Rights: containerproc.Rights{Machine: true}})
	err = cmd.Wait()
	state := cmd.ProcessState
	switch {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case state != nil && !state.Exited():
		return 0, ErrNotRunning // it ended with the container
	case failed != nil:
		return 0, failed
	case state == nil:
		return 0, err
	}
	return state.ExitCode(), nil // err is that of the code, or that output follows
}
