// SPDX-License-Identifier: Apache-2.0

package containerproc

import (
	"math"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// birth has everything that a process without a runtime needs to become a command.
type birth struct {
	path      *byte
	args, env []*byte
	session   bool // whether it has its own
	terminal  bool
	drop      *drop
	parent    uintptr // a socket; the only open descriptor except its streams
	byteRead  [1]byte
	step      [2]byte
}

func newBirth(p Plan, program string) (*birth, error) {
	b := &birth{session: OwnSession(p.Rights.Autogroup, p.Terminal), terminal: p.Terminal}
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
	b.drop, err = newDrop(p.Rights)
	return b, err
}

// begin forks; the child becomes the command or exits.
//
//go:norace
//go:noinline
func (b *birth) begin(flags uintptr) (int, unix.Errno) {
	pid, _, e := unix.RawSyscall6(unix.SYS_CLONE, flags, 0, 0, 0, 0, 0)
	if e == 0 && pid == 0 {
		b.become()
	}
	return int(pid), e
}

// become runs in a copy of this process that has one thread and no runtime: see
// drop.run.
//
//go:norace
//go:nosplit
//go:noinline
func (b *birth) become() {
	var e unix.Errno
	// From here on a process of the container that takes over this one would find no
	// descriptor that leads out.
	if _, _, e = unix.RawSyscall(unix.SYS_CLOSE_RANGE, b.parent+1, math.MaxUint32, 0); e != 0 {
		b.fail(toUser, e)
	}
	if _, _, e = unix.RawSyscall(unix.SYS_CLOSE_RANGE, planAt, b.parent-1, 0); e != 0 && b.parent > planAt {
		b.fail(toUser, e)
	}
	if b.session {
		_, _, e = unix.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	} else {
		_, _, e = unix.RawSyscall(unix.SYS_SETPGID, 0, 0, 0)
	}
	if e != 0 {
		b.fail(toSession, e)
	}
	// The ids are set, and the session has its weight, when the gate opens.
	b.say(toGate, 0)
	n, _, e := unix.RawSyscall(unix.SYS_READ, b.parent, uintptr(unsafe.Pointer(&b.byteRead)), 1)
	if n != 1 {
		b.fail(toUser, e)
	}
	if b.terminal {
		if _, _, e = unix.RawSyscall(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 0); e != 0 {
			b.fail(toSession, e)
		}
	}
	step, e := b.drop.run()
	if e != 0 {
		b.fail(step, e)
	}
	_, _, e = unix.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(b.path)), uintptr(unsafe.Pointer(unsafe.SliceData(b.args))), uintptr(unsafe.Pointer(unsafe.SliceData(b.env))))
	b.fail(toBecome, e)
}

// say writes to the parent.
//
//go:norace
//go:nosplit
//go:noinline
func (b *birth) say(step byte, e unix.Errno) {
	b.step[0], b.step[1] = step, byte(e)
	_, _, _ = unix.RawSyscall(unix.SYS_WRITE, b.parent, uintptr(unsafe.Pointer(&b.step)), 2)
}

// fail reports an error to the parent and exits.
//
//go:norace
//go:nosplit
//go:noinline
func (b *birth) fail(step byte, e unix.Errno) {
	b.say(step, e)
	for {
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, NotBegun, 0, 0)
	}
}
