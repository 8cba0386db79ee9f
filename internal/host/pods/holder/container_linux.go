// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/host/rootfs"
)

// The descriptors of a process that becomes a container or a command, in addition
// to its own.
const (
	planAt   = 3 // its end means that the control groups are entered
	toldAt   = 4 // an error; closed without one when all is done
	TreesAt  = 5 // of a container: its mounts
	targetAt = 5 // of a command: the container
)

// Plan is what a container or a command executes. It starts when its pipe ends.
type Plan struct {
	Args, Env []string
	Dir       string
	UID, GID  int
	Groups    []int
	Nested    bool
	Terminal  bool
	PIDs      uint64
	Autogroup int         // of its Pod
	Root      rootfs.Root // of a container
	Trial     bool        // exits without error when everything has been created
}

// longestPlan is far above all arguments and variables that a kernel accepts.
const longestPlan = 8 << 20

// container creates a root, drops all privileges and executes the program.
func container() int {
	return become(func(p Plan) error {
		if p.Terminal {
			if err := lowerSession("self", p.Autogroup); err != nil {
				return fmt.Errorf("lower the priority of the container: %w", err)
			}
		}
		// It sees its groups as the root of all groups.
		if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
			return fmt.Errorf("hide the host's control groups: %w", err)
		}
		return p.Root.Enter()
	})
}

// become executes the steps of a process until its program, in one thread, as
// capabilities, filters and namespaces belong to a thread.
func become(prepare func(Plan) error) int {
	runtime.LockOSThread()
	for fd := planAt; fd < planAt+maxDescriptors; fd++ {
		unix.CloseOnExec(fd)
	}
	err := toProgram(prepare)
	if err == nil {
		return 0 // a trial
	}
	_, _ = os.NewFile(toldAt, "told").WriteString(bounded(err)) // or the plane has exited
	return notBegun
}

func toProgram(prepare func(Plan) error) error {
	p, err := readPlan()
	if err != nil {
		return err
	}
	if err := prepare(p); err != nil {
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
	if p.Trial {
		return drop(p)
	}
	program, err := lookUp(p.Args[0], p.Env)
	if err != nil {
		return err
	}
	if err := drop(p); err != nil {
		return err
	}
	return explain(program, syscall.Exec(program, p.Args, p.Env))
}

func readPlan() (p Plan, err error) {
	b, err := io.ReadAll(io.LimitReader(os.NewFile(planAt, "plan"), longestPlan+1))
	if err != nil {
		return p, fmt.Errorf("read what to run: %w", err)
	}
	if len(b) > longestPlan {
		return p, fmt.Errorf("read what to run: arguments, variables and files are over %d bytes", longestPlan)
	}
	if err := json.Unmarshal(b, &p); err != nil {
		return p, fmt.Errorf("read what to run: %w", err)
	}
	return p, nil
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

// defaultPath is where programs are searched when Env has no PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// lookUp finds a program inside the new root.
func lookUp(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	dirs := defaultPath
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

// drop drops every privilege, each while that is still allowed.
func drop(p Plan) error {
	if err := lowerWeight(); err != nil {
		return err
	}
	for c := uintptr(0); c < 64; c++ { // as many as the kernel supports
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // past its last one
		}
		if err != nil {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("drop ambient capabilities: %w", err)
	}
	if p.PIDs > 0 {
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: p.PIDs, Max: p.PIDs}); err != nil {
			return fmt.Errorf("limit processes: %w", err)
		}
	}
	if !p.Nested { // there they are correct from the start, and cannot be changed
		if err := identify(p); err != nil {
			return err
		}
	}
	none := [2]unix.CapUserData{}
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid new privileges: %w", err)
	}
	return filter(p.Autogroup > 0)
}

// identify sets the user and groups of this thread alone: it is the one that
// continues.
func identify(p Plan) error {
	groups := make([]uint32, 0, len(p.Groups))
	for _, g := range p.Groups {
		groups = append(groups, uint32(g))
	}
	if err := setGroups(groups); err != nil {
		return fmt.Errorf("set groups: %w", err)
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(p.GID), uintptr(p.GID), uintptr(p.GID)); e != 0 {
		return fmt.Errorf("set group %d: %w", p.GID, e)
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(p.UID), uintptr(p.UID), uintptr(p.UID)); e != 0 {
		return fmt.Errorf("set user %d: %w", p.UID, e)
	}
	return nil
}
