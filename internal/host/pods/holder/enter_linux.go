// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// enter enters the namespaces of a container and starts a command there. It does
// not exit before the command, whose process ids are in the container: only this
// process receives its exit.
func enter() int {
	for fd := planAt; fd <= targetAt; fd++ {
		unix.CloseOnExec(fd)
	}
	told := os.NewFile(toldAt, "told")
	// SIGTERM to this process ends the command and waits for it. Otherwise the
	// container's first process would have to, and few of those wait for others.
	ending := make(chan os.Signal, 1)
	signal.Notify(ending, unix.SIGTERM)
	c, err := entered()
	if err != nil {
		_, _ = told.WriteString(bounded(err)) // or the plane has exited
		return notBegun
	}
	// With these open, readers would not see the end of the command's output.
	_ = errors.Join(os.Stdin.Close(), os.Stdout.Close(), os.Stderr.Close(), told.Close()) // nothing was written
	go func() {
		<-ending
		_ = c.Kill() // it may have exited
	}()
	state, err := c.Wait()
	if err != nil {
		return notBegun
	}
	code, _ := howItEnded(state)
	return code
}

// entered starts the command, and returns when it executes its program.
func entered() (*os.Process, error) {
	// The fork has a process id of the container, so from its first moment on no
	// process there may read its files and memory.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("hide from the container: %w", err)
	}
	// The kernel ends the command with the thread that started it, and the runtime
	// must not create threads from this one, which has other namespaces.
	runtime.LockOSThread()
	p, err := readPlan()
	if err != nil {
		return nil, err
	}
	// A thread that shares its root with others cannot change it.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return nil, fmt.Errorf("part from the other threads: %w", err)
	}
	if err := unix.Setns(targetAt, unix.CLONE_NEWNS|unix.CLONE_NEWPID|unix.CLONE_NEWCGROUP); err != nil {
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
	if p.Nested {
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
	if err = errors.Join(err, b.lead(pid, p, child, program)); err != nil {
		_ = c.Kill() // it may have exited
		_, _ = c.Wait()
		return nil, err
	}
	return c, nil
}

// lead performs the steps for the child that need the holder's /proc, and waits
// until it executes its program.
func (b *birth) lead(pid int, p Plan, child *os.File, program string) error {
	waits, err := hear(child, program)
	if err == nil && !waits {
		err = errors.New("start a process: it was killed")
	}
	if err == nil {
		err = outside(func() error {
			if p.Nested {
				if err := identifyNested(pid, p); err != nil {
					return err
				}
			}
			if b.session {
				return lowerSession(strconv.Itoa(pid), p.Autogroup)
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
	case said[0] == toGate:
		return true, nil
	case said[0] == toBecome:
		return false, explain(program, unix.Errno(said[1]))
	}
	return false, fmt.Errorf("give up rights, step %d: %w", said[0], unix.Errno(said[1]))
}

// outside runs f in a thread that has not entered the container: no descriptor of
// the holder's /proc is open when the child is created.
func outside(f func() error) error {
	done := make(chan error)
	go func() { done <- f() }()
	return <-done
}

// identifyNested sets the ids of the process to those of the container.
func identifyNested(pid int, p Plan) error {
	for _, f := range []struct{ name, text string }{
		{"setgroups", "deny"}, // otherwise the map of groups is refused
		{"uid_map", fmt.Sprintf("%d 0 1", p.UID)},
		{"gid_map", fmt.Sprintf("%d 0 1", p.GID)},
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

// birth has everything that a process without a runtime needs to become a command.
type birth struct {
	path         *byte
	args, env    []*byte
	groups       []uint32
	uid, gid     uintptr
	nested       bool
	terminal     bool
	limit        unix.Rlimit
	head         unix.CapUserHeader
	none         [2]unix.CapUserData
	filter       []unix.SockFilter
	program      unix.SockFprog
	parent       uintptr // a socket; the only open descriptor except its streams
	byteRead     [1]byte
	step         [2]byte
	capabilities uintptr // how many the kernel supports

	session bool // whether it has its own
	weight  unix.SchedAttr
	raising [len(raising)]int
	no      unix.Rlimit
}

func newBirth(p Plan, program string) (*birth, error) {
	b := &birth{uid: uintptr(p.UID), gid: uintptr(p.GID), nested: p.Nested, terminal: p.Terminal, limit: unix.Rlimit{Cur: p.PIDs, Max: p.PIDs},
		head: unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, groups: []uint32{},
		session: ownSession(p.Autogroup, p.Terminal), weight: lowest, raising: raising}
	for _, g := range p.Groups {
		b.groups = append(b.groups, uint32(g))
	}
	var err error
	if b.path, err = syscall.BytePtrFromString(program); err != nil {
		return nil, err
	}
	if b.args, err = syscall.SlicePtrFromStrings(p.Args); err != nil {
		return nil, err
	}
	if b.env, err = syscall.SlicePtrFromStrings(p.Env); err != nil {
		return nil, err
	}
	if b.filter, err = rules(runtime.GOARCH, p.Autogroup > 0); err != nil {
		return nil, err
	}
	b.program = unix.SockFprog{Len: uint16(len(b.filter)), Filter: &b.filter[0]}
	for b.capabilities = 0; b.capabilities < 64; b.capabilities++ {
		if _, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, b.capabilities, 0, 0, 0); err != nil {
			break // past its last one
		}
	}
	return b, nil
}
