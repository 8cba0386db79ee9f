// SPDX-License-Identifier: Apache-2.0

package containerproc

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Rights are what a process of an image may do. The zero value has none of user 0.
type Rights struct {
	// Machine is the profile of container machines: root, without the capabilities that
	// affect the whole host. The other fields are those of Pods.
	Machine  bool `json:",omitempty"`
	UID, GID int
	Groups   []int
	// Nested means that the process has a user namespace with UID and GID alone, which
	// it cannot change.
	Nested bool
	// PIDs is how many processes its user may have; 0 is no limit of its own.
	PIDs uint64
	// Autogroup is the nice value of its session; 0 leaves that unchanged.
	Autogroup int
}

// machineDrops are capabilities that no process of a machine has: they affect the
// whole host, and no program expects them in a container.
var machineDrops = []uintptr{unix.CAP_SYS_MODULE, unix.CAP_SYS_RAWIO, unix.CAP_SYS_TIME}

// drop has everything that a process without a runtime needs to give up rights.
type drop struct {
	machine, nested bool
	weight          unix.SchedAttr
	limits          []limit
	bounding        uint64 // capabilities that leave the bounding set
	groups          []uint32
	uid, gid        uintptr
	head            unix.CapUserHeader
	keeps           [2]unix.CapUserData
	filter          []unix.SockFilter
	program         unix.SockFprog
}

func newDrop(r Rights) (*drop, error) {
	d := &drop{machine: r.Machine, nested: r.Nested, weight: lowest,
		uid: uintptr(r.UID), gid: uintptr(r.GID), groups: []uint32{}, head: unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}}
	for c := uintptr(0); c < 64; c++ {
		if _, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0); err != nil {
			break // past the last one that the kernel supports
		}
		d.bounding |= 1 << c
	}
	if r.Machine {
		var drops uint64
		for _, c := range machineDrops {
			drops |= 1 << c
		}
		d.bounding &= drops
		if err := unix.Capget(&d.head, &d.keeps[0]); err != nil {
			return nil, fmt.Errorf("read capabilities: %w", err)
		}
		for i := range d.keeps {
			keep, k := ^uint32(drops>>(32*i)), &d.keeps[i]
			k.Effective, k.Permitted, k.Inheritable = k.Effective&keep, k.Permitted&keep, k.Inheritable&keep
		}
		return d, nil
	}
	for _, g := range r.Groups {
		d.groups = append(d.groups, uint32(g))
	}
	var err error
	if d.limits, err = limitsOf(r); err != nil {
		return nil, err
	}
	if d.filter, err = rules(runtime.GOARCH, r.Autogroup > 0); err != nil {
		return nil, err
	}
	d.program = unix.SockFprog{Len: uint16(len(d.filter)), Filter: &d.filter[0]}
	return d, nil
}

// The steps of a process that becomes a program, as its errors name them.
const (
	toGate byte = iota // waits for its parent
	toSession
	toWeight
	toBounding
	toUser
	toDrop
	toFilter
	toBecome
)

var stepNames = [...]string{
	toGate: "wait for its parent", toSession: "take its session or terminal", toWeight: "limit the priority", toBounding: "drop capabilities of later programs",
	toUser: "take on its user and limits", toDrop: "drop capabilities", toFilter: "filter system calls (the kernel needs CONFIG_SECCOMP_FILTER)", toBecome: "execute its program",
}

// stepName returns the name of a step, also of one that a message made up.
func stepName(step byte) string {
	if int(step) >= len(stepNames) {
		return "unknown step"
	}
	return stepNames[step]
}

// stepError returns the error of a step; nil if there is none.
func stepError(step byte, e unix.Errno) error {
	if e == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", stepName(step), e)
}

// run gives up the rights of this thread, and of the program that it executes, each
// while that is still allowed. It may run in a copy of a process that has no runtime:
// it calls the kernel, but nothing that allocates, grows its stack or waits for
// another thread.
//
//go:norace
//go:nosplit
//go:noinline
func (d *drop) run() (step byte, e unix.Errno) {
	if !d.machine {
		if _, _, e = unix.RawSyscall(unix.SYS_SCHED_SETATTR, 0, uintptr(unsafe.Pointer(&d.weight)), 0); e != 0 {
			return toWeight, e
		}
	}
	for c := uintptr(0); c < 64; c++ {
		if d.bounding&(1<<c) != 0 {
			if e = prctl(unix.PR_CAPBSET_DROP, c); e != 0 {
				return toBounding, e
			}
		}
	}
	if e = prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL); e != 0 {
		return toBounding, e
	}
	for i := range d.limits {
		l := &d.limits[i]
		if _, _, e = unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, l.which, uintptr(unsafe.Pointer(&l.Rlimit)), 0, 0, 0); e != 0 {
			return toUser, e
		}
	}
	if !d.machine && !d.nested { // there they are correct from the start
		if e = d.identify(); e != 0 {
			return toUser, e
		}
	}
	// While it has capabilities, no process of the container or of its user may access it.
	if e = prctl(unix.PR_SET_DUMPABLE, 0); e != 0 {
		return toDrop, e
	}
	if _, _, e = unix.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&d.head)), uintptr(unsafe.Pointer(&d.keeps)), 0); e != 0 {
		return toDrop, e
	}
	// Not earlier, since changing the user clears it: the program exits with the
	// process that waits for it.
	if e = prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL)); e != 0 || d.machine {
		return toDrop, e
	}
	if e = prctl(unix.PR_SET_NO_NEW_PRIVS, 1); e != 0 {
		return toDrop, e
	}
	_, _, e = unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&d.program)))
	return toFilter, e
}

//go:norace
//go:nosplit
func prctl(option, argument uintptr) unix.Errno {
	_, _, e := unix.RawSyscall6(unix.SYS_PRCTL, option, argument, 0, 0, 0, 0)
	return e
}

// identify sets the user and groups of this thread alone.
//
//go:norace
//go:nosplit
func (d *drop) identify() unix.Errno {
	if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(d.groups)), uintptr(unsafe.Pointer(unsafe.SliceData(d.groups))), 0); e != 0 {
		return e
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, d.gid, d.gid, d.gid); e != 0 {
		return e
	}
	// While it has its capabilities, the user's other processes must not access it:
	// changing the ids can undo what hides it.
	if e := prctl(unix.PR_SET_KEEPCAPS, 1); e != 0 {
		return e
	}
	_, _, e := unix.RawSyscall(unix.SYS_SETRESUID, d.uid, d.uid, d.uid)
	return e
}
