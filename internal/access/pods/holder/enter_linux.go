// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// enter goes into the namespaces of a container and starts a command there. It
// stays, as what it starts has process ids of the container: its end is known
// here alone.
func enter() int {
	for fd := planAt; fd <= programAt; fd++ {
		unix.CloseOnExec(fd)
	}
	code, err := entered()
	if err != nil {
		_, _ = os.NewFile(toldAt, "told").WriteString(bounded(err)) // or the plane is gone
		return notBegun
	}
	return code
}

func entered() (int, error) {
	// The kernel ends the command with the thread that started it, and the
	// runtime must make no thread from this one.
	runtime.LockOSThread()
	p, err := readPlan()
	if err != nil {
		return 0, err
	}
	plan, err := json.Marshal(p)
	if err != nil {
		return 0, err
	}
	// A thread that shares its root with others cannot change it.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return 0, fmt.Errorf("part from the other threads: %w", err)
	}
	if err := unix.Setns(targetAt, unix.CLONE_NEWNS|unix.CLONE_NEWPID|unix.CLONE_NEWCGROUP); err != nil {
		return 0, fmt.Errorf("enter the container (it may have ended): %w", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("make a pipe: %w", err)
	}
	attr := &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL}
	if p.Nested {
		// A process of more than one thread cannot enter the user namespace of
		// the container, so the command makes its own, which is the same.
		attr.Cloneflags, attr.AmbientCaps = unix.CLONE_NEWUSER, mounting
	}
	told := os.NewFile(toldAt, "told")
	c, err := os.StartProcess(fmt.Sprintf("/proc/self/fd/%d", programAt), []string{CommandName}, &os.ProcAttr{
		Dir: "/", Env: []string{}, Sys: attr,
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, r, told, nil, os.NewFile(programAt, "program")},
	})
	if err != nil {
		return 0, fmt.Errorf("start a process in the container: %w", err)
	}
	// With these open, readers would not see the end of what the command has.
	err = errors.Join(r.Close(), told.Close(), os.Stdin.Close(), os.Stdout.Close(), os.Stderr.Close())
	_, werr := w.Write(plan)
	if err = errors.Join(err, werr, w.Close()); err != nil {
		return 0, errors.Join(fmt.Errorf("tell what to run: %w", err), c.Kill())
	}
	state, err := c.Wait()
	if err != nil {
		return 0, err
	}
	code, _ := ending(state)
	return code, nil
}

// command gives up all rights and becomes the command.
func command() int {
	return become(func(p Plan) error {
		if !p.Nested {
			return nil
		}
		for _, f := range []struct{ name, text string }{
			{"setgroups", "deny"}, // or the map of groups is refused
			{"uid_map", fmt.Sprintf("%d 0 1", p.UID)},
			{"gid_map", fmt.Sprintf("%d 0 1", p.GID)},
		} {
			if err := os.WriteFile("/proc/self/"+f.name, []byte(f.text), 0); err != nil {
				return fmt.Errorf("take on the ids of the container: %w", err)
			}
		}
		return nil
	}, true)
}
