// SPDX-License-Identifier: Apache-2.0

package containerproc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/host/cgroups"
)

// enter enters the namespaces of a container and starts a command there. It does
// not exit before the command, whose process ids are in the container: only this
// process receives its exit. It runs in a separate process: what starts it could send
// only one of its threads.
func enter() int {
	closeOnExec()
	plan, told := os.NewFile(planAt, "plan"), os.NewFile(toldAt, "told")
	c, err := entered(plan)
	if err != nil {
		_ = WriteAnswer(told, err) // or what started it has exited
		return NotBegun
	}
	// With these open, readers would not see the end of the command's output.
	_ = errors.Join(os.Stdin.Close(), os.Stdout.Close(), os.Stderr.Close(), told.Close()) // nothing was written
	// Its end ends the command, and this process waits for that. Otherwise the
	// container's first process would have to, and few of those wait for others.
	go func() {
		_, _ = io.Copy(io.Discard, plan) // nothing more is written
		_ = c.Kill()                     // it may have exited
	}()
	state, err := c.Wait()
	if err != nil {
		return NotBegun
	}
	code, _ := ExitCode(state)
	return code
}

// entered starts the command, and returns when it executes its program.
func entered(plan *os.File) (*os.Process, error) {
	// The fork has a process id of the container, so from its first moment on no
	// process there may read its files and memory.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("hide from the container: %w", err)
	}
	// The kernel ends the command with the thread that started it, and the runtime
	// must not create threads from this one, which has other namespaces.
	runtime.LockOSThread()
	var p Plan
	if err := ReadPlan(plan, &p); err != nil {
		return nil, err
	}
	for _, dir := range p.Groups {
		if err := cgroups.EnterDir(dir, os.Getpid()); err != nil {
			return nil, err
		}
	}
	// A thread that shares its root with others cannot change it.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return nil, fmt.Errorf("part from the other threads: %w", err)
	}
	which := unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWCGROUP
	if p.Rights.Machine { // the others are those of a Pod
		which |= unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC
	}
	if err := unix.Setns(TargetAt, which); err != nil {
		return nil, fmt.Errorf("enter the container (it may have ended): %w", err)
	}
	if err := unix.Chdir(path.Join("/", p.Dir)); err != nil {
		return nil, fmt.Errorf("enter the working directory %s: %w", p.Dir, err)
	}
	program, err := lookUp(p.Args[0], p.Env)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("%q is not a program of the image: %w", program, err)
	}
	return fork(p, program)
}

// fork creates a process of one thread, which alone can have a separate user
// namespace. It has no Go runtime: see become in fork_linux.go. A plain user's
// command gets a namespace with the same mappings as the container's, as a process
// with more threads cannot enter that.
func fork(p Plan, program string) (*os.Process, error) {
	b, err := newBirth(p, program)
	if err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	child := os.NewFile(uintptr(pair[0]), "child")
	defer func() { _ = child.Close() }() // everything was read
	b.parent = uintptr(pair[1])
	flags := uintptr(unix.SIGCHLD)
	if p.Rights.Nested {
		flags |= unix.CLONE_NEWUSER
	}
	pid, errno := b.begin(flags)
	runtime.KeepAlive(b)
	err = unix.Close(pair[1])
	if errno != 0 {
		return nil, errors.Join(fmt.Errorf("start a process: %w", errno), err)
	}
	c, ferr := os.FindProcess(pid)
	if ferr != nil {
		return nil, errors.Join(ferr, unix.Kill(pid, unix.SIGKILL))
	}
	if err = errors.Join(err, b.lead(pid, p.Rights, child, program)); err != nil {
		_ = c.Kill() // it may have exited
		_, _ = c.Wait()
		return nil, err
	}
	return c, nil
}

// lead performs the steps for the child that need the /proc of the shim, and waits
// until it executes its program.
func (b *birth) lead(pid int, r Rights, child *os.File, program string) error {
	waits, err := hear(child, program)
	if err == nil && !waits {
		err = errors.New("start a process: it was killed")
	}
	if err == nil {
		err = outside(func() error {
			if r.Nested {
				if err := identifyNested(pid, r); err != nil {
					return err
				}
			}
			if b.session {
				return LowerSession(strconv.Itoa(pid), r.Autogroup)
			}
			return nil
		})
	}
	if err == nil {
		_, err = child.Write([]byte{1})
	}
	if err == nil {
		_, err = hear(child, program)
	}
	return err
}

// hear reads the child's messages, and returns whether it waits for its parent.
// Otherwise it executes its program, or was killed.
func hear(child *os.File, program string) (waits bool, err error) {
	var said [2]byte // a step and an error number
	switch _, err := io.ReadFull(child, said[:]); {
	case errors.Is(err, io.EOF):
		return false, nil
	case err != nil:
		return false, err
	case said == [2]byte{toGate, 0}:
		return true, nil
	case said[0] == toBecome:
		return false, explain(program, unix.Errno(said[1]))
	}
	return false, fmt.Errorf("%s: %w", stepName(said[0]), unix.Errno(said[1]))
}

// outside runs f in a thread that has not entered the container: no descriptor of
// the shim's /proc is open when the child is created.
func outside(f func() error) error {
	done := make(chan error)
	go func() { done <- f() }()
	return <-done
}

// identifyNested sets the ids of the process to those of the container.
func identifyNested(pid int, r Rights) error {
	for _, f := range []struct{ name, text string }{
		{"setgroups", "deny"}, // otherwise the map of groups is refused
		{"uid_map", fmt.Sprintf("%d 0 1", r.UID)},
		{"gid_map", fmt.Sprintf("%d 0 1", r.GID)},
	} {
		// In one write, and not as a new file.
		file, err := os.OpenFile(fmt.Sprintf("/proc/%d/%s", pid, f.name), os.O_WRONLY, 0)
		if err == nil {
			_, err = file.WriteString(f.text)
			err = errors.Join(err, file.Close())
		}
		if err != nil {
			return fmt.Errorf("take on the ids of the container: %w", err)
		}
	}
	return nil
}
