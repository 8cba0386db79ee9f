// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"math"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The steps of become, as its errors name them.
const (
	toTerminal byte = iota + 1
	toBounding
	toUser
	toDrop
	toFilter
	toBecome
	toWeight
	toGate // waits for its parent
)

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

// become runs in a copy of this process that has one thread and no runtime: it may
// call the kernel, but nothing that allocates, grows its stack or waits for another
// thread.
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
		b.fail(toTerminal, e)
	}
	// The ids are set, and the session has its weight, when the gate opens.
	b.say(toGate, 0)
	n, _, e := unix.RawSyscall(unix.SYS_READ, b.parent, uintptr(unsafe.Pointer(&b.byteRead)), 1)
	if n != 1 {
		b.fail(toUser, e)
	}
	if _, _, e = unix.RawSyscall(unix.SYS_SCHED_SETATTR, 0, uintptr(unsafe.Pointer(&b.weight)), 0); e != 0 {
		b.fail(toWeight, e)
	}
	for _, l := range b.raising {
		if _, _, e = unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, uintptr(l), uintptr(unsafe.Pointer(&b.no)), 0, 0, 0); e != 0 {
			b.fail(toWeight, e)
		}
	}
	if b.terminal {
		if _, _, e = unix.RawSyscall(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 0); e != 0 {
			b.fail(toTerminal, e)
		}
	}
	for c := uintptr(0); c < b.capabilities; c++ {
		if _, _, e = unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0, 0, 0, 0); e != 0 {
			b.fail(toBounding, e)
		}
	}
	if _, _, e = unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0); e != 0 {
		b.fail(toBounding, e)
	}
	if b.limit.Max > 0 {
		if _, _, e = unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NPROC, uintptr(unsafe.Pointer(&b.limit)), 0, 0, 0); e != 0 {
			b.fail(toUser, e)
		}
	}
	if !b.nested { // there they are correct from the start
		b.identify()
	}
	if _, _, e = unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0, 0, 0); e != 0 {
		b.fail(toDrop, e)
	}
	if _, _, e = unix.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&b.head)), uintptr(unsafe.Pointer(&b.none)), 0); e != 0 {
		b.fail(toDrop, e)
	}
	// Not earlier, since changing the user clears it: the command exits with the
	// process that waits for it.
	if _, _, e = unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0, 0); e != 0 {
		b.fail(toDrop, e)
	}
	if _, _, e = unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); e != 0 {
		b.fail(toDrop, e)
	}
	if _, _, e = unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&b.program))); e != 0 {
		b.fail(toFilter, e)
	}
	_, _, e = unix.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(b.path)), uintptr(unsafe.Pointer(unsafe.SliceData(b.args))), uintptr(unsafe.Pointer(unsafe.SliceData(b.env))))
	b.fail(toBecome, e)
}

// identify sets user and groups.
//
//go:norace
//go:nosplit
//go:noinline
func (b *birth) identify() {
	var e unix.Errno
	if _, _, e = unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(b.groups)), uintptr(unsafe.Pointer(unsafe.SliceData(b.groups))), 0); e != 0 {
		b.fail(toUser, e)
	}
	if _, _, e = unix.RawSyscall(unix.SYS_SETRESGID, b.gid, b.gid, b.gid); e != 0 {
		b.fail(toUser, e)
	}
	// While it has its capabilities, the user's other processes must not access it:
	// changing the ids can undo what entered set.
	if _, _, e = unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 1, 0, 0, 0, 0); e != 0 {
		b.fail(toUser, e)
	}
	if _, _, e = unix.RawSyscall(unix.SYS_SETRESUID, b.uid, b.uid, b.uid); e != 0 {
		b.fail(toUser, e)
	}
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
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, notBegun, 0, 0)
	}
}
