// SPDX-License-Identifier: Apache-2.0

package containerproc

import (
	"errors"
	"fmt"
	"os"
	"path"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A process initializes all packages of the program at its start, in the order of
// their names among those whose imports are initialized, and keeps that memory as
// long as it exists. So this package imports no package that is initialized late,
// such as net/netip and runtime/debug: with those it would run after tables of
// megabytes were initialized.
func init() {
	if len(os.Args) == 0 {
		return
	}
	switch os.Args[0] {
	case StartName:
		os.Exit(start())
	case EnterName:
		os.Exit(enter())
	}
}

// start creates a root, gives up rights and executes the program, in one thread:
// capabilities, filters and namespaces belong to a thread.
func start() int {
	runtime.LockOSThread()
	closeOnExec()
	err := startProgram()
	if err == nil {
		return 0 // a trial
	}
	_ = WriteAnswer(os.NewFile(toldAt, "told"), err) // or what started it has exited
	return NotBegun
}

func startProgram() error {
	// If the process that started this one has exited already, nothing can be read.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("end with the shim: %w", err)
	}
	var p Plan
	if err := ReadPlan(os.NewFile(planAt, "plan"), &p); err != nil {
		return err
	}
	if p.Terminal {
		if err := LowerSession("self", p.Rights.Autogroup); err != nil {
			return fmt.Errorf("lower the priority of the container: %w", err)
		}
	}
	// Not earlier: the root of the groups that a container sees is the current group
	// of the process, which was moved.
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("hide the host's control groups: %w", err)
	}
	if p.Rights.Machine {
		if err := unix.Sethostname([]byte(p.Hostname)); err != nil {
			return fmt.Errorf("set the hostname: %w", err)
		}
		if err := LoopbackUp(); err != nil {
			return fmt.Errorf("set loopback up: %w", err)
		}
	}
	if err := p.Root.Enter(); err != nil {
		return err
	}
	if p.Terminal {
		if err := unix.IoctlSetInt(0, unix.TIOCSCTTY, 0); err != nil {
			return fmt.Errorf("take the terminal: %w", err)
		}
	}
	if err := unix.Chdir(path.Join("/", p.Dir)); err != nil {
		return fmt.Errorf("enter the working directory %s: %w", p.Dir, err)
	}
	d, err := newDrop(p.Rights)
	if err != nil {
		return err
	}
	if p.Trial {
		return stepError(d.run())
	}
	program, err := lookUp(p.Args[0], p.Env)
	if err != nil {
		return err
	}
	if err := stepError(d.run()); err != nil {
		return err
	}
	return explain(program, syscall.Exec(program, p.Args, p.Env))
}

// LoopbackUp sets the link lo up, which every program expects.
func LoopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(s) }() // nothing was sent
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(s, unix.SIOCGIFFLAGS, r); err != nil {
		return err
	}
	r.SetUint16(r.Uint16() | unix.IFF_UP)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, r)
}

// explain adds the likely cause to the error of a program that does not run.
func explain(program string, err error) error {
	_, there := os.Stat(program)
	switch {
	case errors.Is(err, unix.ENOENT) && there == nil:
		return fmt.Errorf("exec %s: its interpreter is not in the image: build the program with CGO_ENABLED=0, or use an image that has it: %w", program, err)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("exec %s: the image has no such file: correct the command: %w", program, err)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("exec %s: the user of the container may not execute it: give it mode 0755 in the image, or correct the command: %w", program, err)
	case errors.Is(err, unix.ENOEXEC):
		return fmt.Errorf("exec %s: it is for another architecture or is no program: use an image for %s, or correct the command: %w", program, runtime.GOARCH, err)
	}
	return fmt.Errorf("exec %s: %w", program, err)
}

// SearchPath is where programs are searched when the environment has no PATH.
const SearchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// lookUp finds a program inside the new root.
func lookUp(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	dirs := SearchPath
	for _, e := range env {
		if d, ok := strings.CutPrefix(e, "PATH="); ok {
			dirs = d
		}
	}
	for d := range strings.SplitSeq(dirs, ":") {
		file := path.Join("/", d, name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("%q is not a program of the image: it is in none of %s, or may not be executed: correct the command, or PATH", name, dirs)
}
