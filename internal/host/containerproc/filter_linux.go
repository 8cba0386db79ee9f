// SPDX-License-Identifier: Apache-2.0

package containerproc

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// denied are calls with which kernels have been attacked or machines are changed,
// and that no controller uses. They return EPERM: programs expect that in
// containers. Calls that are neither here nor allowed return ENOSYS, as on older
// kernels.
var denied = []uint32{
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD, unix.SYS_PROCESS_MADVISE,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_SYSLOG, unix.SYS_VHANGUP, unix.SYS_ACCT, unix.SYS_QUOTACTL,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_NFSSERVCTL,
	unix.SYS_MBIND, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES, unix.SYS_SET_MEMPOLICY, unix.SYS_PERSONALITY,
}

// families are the permitted families of sockets. The others return EAFNOSUPPORT,
// as on kernels that lack them; some, such as VSOCK, have no network namespaces and
// would reach the host.
var families = []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

// pushing are requests of ioctl that write into a terminal like typed input.
var pushing = []uint32{unix.TIOCSTI, unix.TIOCLINUX}

// namespaces are the flags of clone that create namespaces.
const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

const (
	// The offsets of the call, its machine and the low half of its arguments in the
	// kernel's struct seccomp_data. Arguments are 8 bytes each.
	callAt, machineAt, argumentsAt = 0, 4, 16
	// x32Bit marks calls of a third convention of amd64.
	x32Bit = 0x40000000
)

// rules returns the filter for a machine. keepSession denies new sessions: the
// kernel would give them the usual weight.
func rules(arch string, keepSession bool) ([]unix.SockFilter, error) {
	audit, ok := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[arch]
	if !ok {
		return nil, fmt.Errorf("no filter of system calls is known for %s", arch)
	}
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	jump := func(how uint16, k uint32, yes, no int) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | how | unix.BPF_K, K: k, Jt: uint8(yes), Jf: uint8(no)}
	}
	answer := func(n uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: n} }
	fail := func(e unix.Errno) unix.SockFilter { return answer(unix.SECCOMP_RET_ERRNO | uint32(e)) }
	p := []unix.SockFilter{
		load(machineAt), jump(unix.BPF_JEQ, audit, 1, 0), answer(unix.SECCOMP_RET_KILL_PROCESS), // numbers of another machine
		load(callAt),
	}
	if arch == "amd64" {
		p = append(p, jump(unix.BPF_JGE, x32Bit, 0, 1), fail(unix.EPERM))
	}
	refused := denied
	if keepSession {
		refused = append(slices.Clone(denied), unix.SYS_SETSID)
	}
	for _, call := range refused {
		p = append(p, jump(unix.BPF_JEQ, call, 0, 1), fail(unix.EPERM))
	}
	// Its flags are in memory, which a filter cannot read; libraries use clone if it
	// is missing.
	p = append(p, jump(unix.BPF_JEQ, unix.SYS_CLONE3, 0, 1), fail(unix.ENOSYS))
	p = append(p, jump(unix.BPF_JEQ, unix.SYS_CLONE, 0, 4), load(argumentsAt), jump(unix.BPF_JSET, namespaces, 0, 1), fail(unix.EPERM), answer(unix.SECCOMP_RET_ALLOW))
	p = append(p, jump(unix.BPF_JEQ, unix.SYS_IOCTL, 0, 2+2*len(pushing)), load(argumentsAt+8))
	for _, r := range pushing {
		p = append(p, jump(unix.BPF_JEQ, r, 0, 1), fail(unix.EPERM))
	}
	p = append(p, answer(unix.SECCOMP_RET_ALLOW))
	for _, call := range []uint32{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR} {
		p = append(p, jump(unix.BPF_JEQ, call, 0, 3+len(families)), load(argumentsAt))
		for i, f := range families {
			p = append(p, jump(unix.BPF_JEQ, f, len(families)-i, 0))
		}
		p = append(p, fail(unix.EAFNOSUPPORT), answer(unix.SECCOMP_RET_ALLOW))
	}
	for _, call := range allowed {
		p = append(p, jump(unix.BPF_JEQ, call, 0, 1), answer(unix.SECCOMP_RET_ALLOW))
	}
	return append(p, fail(unix.ENOSYS)), nil
}
