// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// TestTheFilterAnswers runs the filter as the kernel does, for this machine's
// numbers of calls.
func TestTheFilterAnswers(t *testing.T) {
	program, err := rules("amd64", false)
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
	fail := func(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }
	type call struct{ machine, number, first, second uint32 }
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
	for _, number := range denied {
		tests[fmt.Sprint("denied ", number)] = struct {
			call
			want uint32
		}{on(number), fail(unix.EPERM)}
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			// The kernel's numbers are the machine's; those of this VM the network's.
			data := make([]byte, 64)
			for at, n := range map[int]uint32{callAt: tc.number, machineAt: tc.machine, argumentsAt: tc.first, argumentsAt + 8: tc.second} {
				binary.BigEndian.PutUint32(data[at:], n)
			}
			got, err := vm.Run(data)
			if err != nil || uint32(got) != tc.want {
				t.Errorf("got %#x, %v, want %#x", got, err, tc.want)
			}
		})
	}
	kept, err := rules("amd64", true)
	if err != nil {
		t.Fatal(err)
	}
	session := unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_SETSID, Jf: 1}
	if slices.Contains(program, session) || !slices.Contains(kept, session) {
		t.Error("sessions are denied where the kernel does not weigh them, or not denied where it does")
	}
	if _, err := rules("riscv64", false); err == nil {
		t.Error("a machine that is not known has a filter")
	}
}
