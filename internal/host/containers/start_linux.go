// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/internal/host/cgroups"
	"github.com/capstan-dev/capstan/internal/host/containerproc"
	"github.com/capstan-dev/capstan/internal/host/containers/network"
	"github.com/capstan-dev/capstan/internal/host/containers/supervisor"
	"github.com/capstan-dev/capstan/internal/host/rootfs"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// Start starts a container and returns when its first process runs. It succeeds if
// the container runs already.
func (l *Launcher) Start(ctx context.Context, name string) error {
	done, err := l.work(ctx, name)
	if err != nil {
		return err
	}
	defer done()
	if err := l.start(ctx, name); err != nil {
		return fmt.Errorf("start container %s: %w", name, err)
	}
	l.follow(name)
	l.notify(name) // watches of its files check them now
	return nil
}

func (l *Launcher) start(ctx context.Context, name string) error {
	spec, err := l.spec(name)
	if err != nil {
		return err
	}
	if runs, err := l.runs(ctx, name); err != nil || runs {
		return err
	}
	if err := sources(spec); err != nil {
		return err
	}
	// Leftovers of an earlier run would conflict.
	if err := l.tidy(name); err != nil {
		return err
	}
	run, err := l.plan(spec)
	if err != nil {
		return err
	}
	err = l.launch(ctx, spec, run)
	if err != nil {
		err = errors.Join(err, l.tidy(name))
	}
	return err
}

// runs reports whether a container runs. It waits for a living supervisor: one that
// reboots the container starts it again, and one that lost its launcher before it
// received what to run exits.
func (l *Launcher) runs(ctx context.Context, name string) (bool, error) {
	if alive, err := l.alive(name); err != nil || !alive {
		return false, err
	}
	conn := l.dial(name)
	if conn == nil {
		return false, nil
	}
	stop := context.AfterFunc(ctx, recovery.Func(ctx, func() { _ = conn.Close() }))
	defer stop()
	defer func() { _ = conn.Close() }() // everything was read
	for states := json.NewDecoder(conn); ; {
		var st supervisor.State
		if states.Decode(&st) != nil {
			return false, errors.Join(context.Cause(ctx), l.awaitLock(name))
		}
		if st.Running {
			return true, nil
		}
	}
}

// awaitLock waits until the kernel has released a supervisor's lock, which happens
// a moment after the process closed its connections.
func (l *Launcher) awaitLock(name string) error {
	for deadline := time.Now().Add(answerTime); ; time.Sleep(5 * time.Millisecond) {
		alive, err := l.alive(name)
		if err != nil || !alive {
			return err
		}
		if time.Now().After(deadline) {
			return errors.New("its supervisor hangs: end that process, whose name is " + supervisor.Name)
		}
	}
}

// sources returns an error for each folder or file of the host that is missing,
// with the field that names it.
func sources(s Spec) error {
	var errs []error
	check := func(field, file string, folder bool) {
		info, err := os.Stat(file)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", field, err))
		} else if folder && !info.IsDir() {
			errs = append(errs, fmt.Errorf("%s: %s is no folder", field, file))
		}
	}
	for i, dir := range s.Root {
		check(fmt.Sprintf("Root[%d]", i), dir, true)
	}
	for i, m := range s.Mounts {
		check(fmt.Sprintf("Mounts[%d].Source", i), m.Source, false)
	}
	return errors.Join(errs...)
}

func (l *Launcher) plan(spec Spec) (supervisor.Run, error) {
	h := host{folder: l.folder(spec.Name), groups: l.groups}
	for _, d := range rootfs.MachineDevices() {
		if _, err := os.Stat(filepath.Join("/dev", d)); err == nil {
			h.devices = append(h.devices, d)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return supervisor.Run{}, err
		}
	}
	run := runOf(spec, h, l.group(spec.Name), l.options)
	if p := pairOf(spec, l.names); p != nil {
		var err error
		if run.Network, err = json.Marshal(p); err != nil {
			return run, err
		}
	}
	return run, nil
}

func (l *Launcher) group(name string) string { return groupOf(l.identity, name, l.scopes) }

// launch starts a supervisor, puts it into its groups, and has it run the
// container.
func (l *Launcher) launch(ctx context.Context, spec Spec, run supervisor.Run) (err error) {
	pipes, err := containerproc.NewPipes()
	if err != nil {
		return err
	}
	defer pipes.Close()
	cmd := &exec.Cmd{
		Path: containerproc.Self, Args: []string{supervisor.Name, l.identity, spec.Name}, Env: containerproc.Environment,
		Dir: l.folder(spec.Name), Stdin: pipes.Given, ExtraFiles: []*os.File{pipes.Answer},
		// Signals to this process from its terminal must not end containers.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start its supervisor: %w", err)
	}
	pipes.Passed()
	ended := make(chan struct{})
	go recovery.Func(ctx, func() {
		defer close(ended)
		_ = cmd.Wait() // its state records how it ended
	})()
	defer func() {
		if err != nil {
			_ = cmd.Process.Kill() // it may have exited
			<-ended
		}
	}()
	l.reached("supervisor started")
	if err := l.makeGroups(ctx, spec, cmd.Process.Pid); errors.Is(err, syscall.ESRCH) {
		return cmp.Or(heed(ctx, pipes), err) // it exited, and its answer has the better reason
	} else if err != nil {
		return err
	}
	l.reached("groups made")
	if err := pipes.Send(run); err != nil {
		return err
	}
	l.reached("plan given")
	return heed(ctx, pipes)
}

// makeGroups creates the groups of a container. The supervisor enters its own group
// before the container's is created: as long as the group above has a process, it
// delegates nothing.
func (l *Launcher) makeGroups(ctx context.Context, spec Spec, pid int) error {
	above, group := "/", l.group(spec.Name)
	if l.scopes {
		above = group
		if err := startScope(ctx, scopeOf(l.identity, spec.Name), pid); err != nil {
			return err
		}
	}
	l.base.Lock()
	err := l.groups.Make(above, path.Join(group, cgroups.Supervisor))
	l.base.Unlock()
	if err != nil {
		return err
	}
	if err := l.groups.Enter(path.Join(group, cgroups.Supervisor), pid); err != nil {
		return err
	}
	l.reached("supervisor moved")
	inside := path.Join(group, cgroups.Container)
	if err := l.groups.Make(above, inside); err != nil {
		return err
	}
	return l.groups.Limit(inside, cgroups.Limits{Memory: spec.Memory, MilliCPU: spec.MilliCPU})
}

// heed waits for the answer of a supervisor.
func heed(ctx context.Context, pipes *containerproc.Pipes) error {
	stop := context.AfterFunc(ctx, recovery.Func(ctx, func() { _ = pipes.Told.Close() })) // ends the read
	defer stop()
	err := pipes.Await()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, io.EOF):
		return errors.New("its supervisor ended before its first process began: look for it in the kernel's log, such as that memory was short")
	}
	return err
}

// tidy removes everything outside the folder of a container that does not run. It
// ends processes that are left.
func (l *Launcher) tidy(name string) error {
	err := l.groups.Remove(l.group(name))
	if !l.scopes {
		// The last container also removes the group of all.
		l.base.Lock()
		defer l.base.Unlock()
		for _, dir := range l.groups.Dirs(groupBase(l.identity)) {
			_ = os.Remove(dir) // it contains other groups
		}
	}
	return errors.Join(err, network.Disconnect(l.names.Link(name)))
}
