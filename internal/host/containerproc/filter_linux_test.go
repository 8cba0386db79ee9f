// SPDX-License-Identifier: Apache-2.0

package containerproc

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// call is a system call as a filter sees it.
type call struct{ machine, number, first, second uint32 }

// filtering returns the result of the filter in the kernel's virtual machine.
func filtering(t *testing.T, keepSession bool) func(*testing.T, call) uint32 {
	program, err := rules(runtime.GOARCH, keepSession)
	if err != nil {
		t.Fatal(err)
	}
	var raw []bpf.RawInstruction
	for _, i := range program {
		raw = append(raw, bpf.RawInstruction{Op: i.Code, Jt: i.Jt, Jf: i.Jf, K: i.K})
	}
	instructions, known := bpf.Disassemble(raw)
	if !known {
		t.Fatal("an instruction is not known")
	}
	vm, err := bpf.NewVM(instructions)
	if err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T, c call) uint32 {
		// The kernel's numbers are in the machine's byte order; those of this VM in the
		// network's.
		data := make([]byte, 64)
		for at, n := range map[int]uint32{callAt: c.number, machineAt: c.machine, argumentsAt: c.first, argumentsAt + 8: c.second} {
			binary.BigEndian.PutUint32(data[at:], n)
		}
		got, err := vm.Run(data)
		if err != nil {
			t.Fatal(err)
		}
		return uint32(got)
	}
}

// TestTheFilterAnswers runs the filter for this machine's numbers of calls.
func TestTheFilterAnswers(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("has the numbers of amd64")
	}
	answer, kept := filtering(t, false), filtering(t, true)
	fail := func(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }
	on := func(number uint32, args ...uint32) call {
		args = append(args, 0, 0)
		return call{unix.AUDIT_ARCH_X86_64, number, args[0], args[1]}
	}
	tests := map[string]struct {
		call
		want uint32
	}{
		"reading":                  {on(unix.SYS_READ), unix.SECCOMP_RET_ALLOW},
		"a thread":                 {on(unix.SYS_CLONE, unix.CLONE_VM|unix.CLONE_THREAD), unix.SECCOMP_RET_ALLOW},
		"a namespace":              {on(unix.SYS_CLONE, unix.CLONE_NEWUSER), fail(unix.EPERM)},
		"clone3":                   {on(unix.SYS_CLONE3), fail(unix.ENOSYS)},
		"the size of a terminal":   {on(unix.SYS_IOCTL, 0, unix.TIOCGWINSZ), unix.SECCOMP_RET_ALLOW},
		"typing into it":           {on(unix.SYS_IOCTL, 0, unix.TIOCSTI), fail(unix.EPERM)},
		"pasting into it":          {on(unix.SYS_IOCTL, 0, unix.TIOCLINUX), fail(unix.EPERM)},
		"a TCP socket":             {on(unix.SYS_SOCKET, unix.AF_INET), unix.SECCOMP_RET_ALLOW},
		"a socket of routes":       {on(unix.SYS_SOCKET, unix.AF_NETLINK), unix.SECCOMP_RET_ALLOW},
		"a socket to the guest":    {on(unix.SYS_SOCKET, unix.AF_VSOCK), fail(unix.EAFNOSUPPORT)},
		"a pair of unix sockets":   {on(unix.SYS_SOCKETPAIR, unix.AF_UNIX), unix.SECCOMP_RET_ALLOW},
		"a pair of others":         {on(unix.SYS_SOCKETPAIR, unix.AF_TIPC), fail(unix.EAFNOSUPPORT)},
		"the x32 convention":       {on(x32Bit | unix.SYS_READ), fail(unix.EPERM)},
		"calls of another machine": {call{machine: unix.AUDIT_ARCH_I386, number: unix.SYS_READ}, unix.SECCOMP_RET_KILL_PROCESS},
	}
	for name, number := range map[string]uint32{
		"quotas": unix.SYS_QUOTACTL_FD, "a mount": unix.SYS_STATMOUNT, "mounts": unix.SYS_LISTMOUNT, "a tree of mounts": unix.SYS_OPEN_TREE_ATTR,
		"secret memory": unix.SYS_MEMFD_SECRET, "segments": 154, "pages for a pipe": unix.SYS_VMSPLICE, "ports": 173,
		"a call that there is not": 999, "one of tomorrow": x32Bit - 1, "the highest": 1<<32 - 1,
	} {
		want := fail(unix.ENOSYS)
		if number > x32Bit {
			want = fail(unix.EPERM)
		}
		tests[name] = struct {
			call
			want uint32
		}{on(number), want}
	}
	for _, number := range allowed {
		tests[fmt.Sprint("allowed ", number)] = struct {
			call
			want uint32
		}{on(number), unix.SECCOMP_RET_ALLOW}
	}
	for _, number := range denied {
		tests[fmt.Sprint("denied ", number)] = struct {
			call
			want uint32
		}{on(number), fail(unix.EPERM)}
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := answer(t, tc.call); got != tc.want {
				t.Errorf("got %#x, want %#x", got, tc.want)
			}
		})
	}
	session := on(unix.SYS_SETSID)
	if answer(t, session) != unix.SECCOMP_RET_ALLOW || kept(t, session) != fail(unix.EPERM) {
		t.Error("sessions are denied where the kernel does not weigh them, or not denied where it does")
	}
	if _, err := rules("riscv64", false); err == nil {
		t.Error("a machine that is not known has a filter")
	}
}
