// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Numbers above 424, which amd64 and arm64 share.
const sysMoveMount, sysFsconfig, sysClone3, sysMountSetattr, sysProcessMadvise = 429, 431, 435, 442, 440

// more are attempts on features of the kernel that have many variants: calls that
// change the host, files of /proc and /sys that do, devices, and what a process may
// request for itself.
func more(file string) map[string]func() error {
	all := map[string]func() error{
		"a user namespace by clone":    func() error { return call(syscall.SYS_CLONE, syscall.CLONE_NEWUSER|uintptr(syscall.SIGCHLD)) },
		"a process namespace by clone": func() error { return call(syscall.SYS_CLONE, syscall.CLONE_NEWPID|uintptr(syscall.SIGCHLD)) },
		"a user namespace by clone3":   clone3,
		"a control group namespace":    func() error { return syscall.Unshare(0x02000000) },
		"move a mount": func() error {
			return call(sysMoveMount, ^uintptr(99), pointer("/tmp"), ^uintptr(99), pointer("/bin"), 0)
		},
		"configure a file system": func() error { return call(sysFsconfig, 0, 6, 0, 0, 0) },
		"make the root writable": func() error {
			return call(sysMountSetattr, ^uintptr(99), pointer("/"), 0, pointer(strings.Repeat("\x00", 32)), 32)
		},
		"mount control groups":          func() error { return syscall.Mount("cgroup", "/tmp", "cgroup", 0, "memory") },
		"mount control groups, unified": func() error { return syscall.Mount("cgroup2", "/tmp", "cgroup2", 0, "") },
		"mount overlays": func() error {
			return syscall.Mount("overlay", "/tmp", "overlay", 0, "lowerdir=/bin,upperdir=/tmp,workdir=/tmp")
		},
		"bind the kernel's settings": func() error { return syscall.Mount("/proc/sys", "/tmp", "", syscall.MS_BIND, "") },
		"read another's memory":      func() error { return call(sysProcessVMReadv, 1, 0, 0, 0, 0, 0) },
		"write another's memory":     func() error { return call(sysProcessVMWritev, 1, 0, 0, 0, 0, 0) },
		"compare kernel objects":     func() error { return call(sysKcmp, 1, 1, 0, 0, 0) },
		"advise another's memory":    func() error { return call(sysProcessMadvise, 0, 0, 0, 0, 0) },
		"a handle of a file": func() error {
			return call(sysNameToHandle, ^uintptr(99), pointer("/bin"), pointer("\x00\x02\x00\x00"+strings.Repeat("\x00", 600)), pointer("1234"), 0)
		},
		"watch all files":              func() error { return call(sysFanotifyInit, 0, 0) },
		"request a key":                func() error { return call(sysRequestKey, pointer("user"), pointer("x"), 0, 0) },
		"a swap file":                  func() error { return call(syscall.SYS_SWAPON, pointer("/tmp/swap"), 0) },
		"accounting":                   func() error { return call(syscall.SYS_ACCT, 0) },
		"another kernel":               func() error { return call(sysKexecLoad, 0, 0, 0, 0) },
		"the domain name":              func() error { return syscall.Setdomainname([]byte("x")) },
		"addresses that are the same":  func() error { return call(syscall.SYS_PERSONALITY, 0x0040000) },
		"go before all others":         func() error { return syscall.Setpriority(syscall.PRIO_PROCESS, 0, -20) },
		"go before others of the user": func() error { return syscall.Setpriority(syscall.PRIO_PROCESS, 0, 18) },
		"allow itself more priority":   func() error { return syscall.Setrlimit(rlimitNice, &syscall.Rlimit{Cur: 20, Max: 20}) },
		"in real time":                 func() error { return call(syscall.SYS_SCHED_SETSCHEDULER, 0, 1, pointer("\x01\x00\x00\x00")) },
		"be spared when memory is out": func() error { return rewrite("/proc/self/oom_score_adj", "-1000") },
		"more processes":               moreProcesses,
		"ask for the namespace above":  func() error { return above("/proc/self/ns/user") },
		"and that of processes":        func() error { return above("/proc/self/ns/pid") },
		"a process of others":          strangers,
		"a socket of the plane":        func() error { return dial("unix", filepath.Join(filepath.Dir(file), "plane.sock")) },
		"an address of the host's":     func() error { return dial("tcp", "[::1]:22") },
		"all packets":                  socket(syscall.AF_PACKET, syscall.SOCK_DGRAM, 0x300),
		"a raw socket of version 6":    socket(syscall.AF_INET6, syscall.SOCK_RAW, syscall.IPPROTO_ICMPV6),
		"bluetooth":                    socket(31, syscall.SOCK_RAW, 1),
		"key management":               socket(15, syscall.SOCK_RAW, 2),
		"a fast path to the network":   socket(44, syscall.SOCK_RAW, 0),
	}
	for _, f := range []string{
		"/proc/sys/fs/binfmt_misc/register", "/proc/sys/kernel/yama/ptrace_scope", "/proc/sys/kernel/unprivileged_bpf_disabled", "/proc/sys/kernel/sysrq",
		"/proc/sys/user/max_user_namespaces", "/proc/sys/net/core/somaxconn", "/proc/sys/kernel/shmmax", "/proc/sys/kernel/ns_last_pid", "/proc/sys/kernel/randomize_va_space",
		"/proc/sys/vm/drop_caches", "/proc/sys/vm/panic_on_oom", "/proc/irq/default_smp_affinity", "/proc/bus/pci/devices",
		"/sys/kernel/uevent_helper", "/sys/fs/cgroup/release_agent", "/sys/fs/cgroup/cgroup.procs", "/sys/power/state", "/sys/kernel/debug/tracing/trace_marker",
		"/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/loop-control", "/dev/mapper/control", "/dev/sda", "/dev/vda", "/dev/nvme0n1", "/dev/userfaultfd", "/dev/vsock", "/dev/ptmx",
	} {
		all["write "+f] = func() error { return open(f) }
	}
	for _, f := range []string{"kallsyms", "kmsg", "kpagecount", "kpageflags", "timer_list", "sched_debug", "vmallocinfo", "interrupts", "key-users"} {
		all["read /proc/"+f] = func() error { b, err := os.ReadFile("/proc/" + f); return empty(b, err) }
	}
	return all
}

func clone3() error {
	args := make([]byte, 88)
	args[3] = syscall.CLONE_NEWUSER >> 24 // flags, of 8 bytes; the lowest comes first
	args[32] = byte(syscall.SIGCHLD)
	return call(sysClone3, pointer(string(args)), uintptr(len(args)))
}

// moreProcesses raises its own limit.
func moreProcesses() error {
	const processes = 6
	var r syscall.Rlimit
	if err := syscall.Getrlimit(processes, &r); err != nil {
		return err
	}
	r.Cur, r.Max = r.Max+1, r.Max+1
	return syscall.Setrlimit(processes, &r)
}

// above opens the parent of a namespace.
func above(namespace string) error {
	f, err := os.Open(namespace)
	if err != nil {
		return err
	}
	defer f.Close()
	const getParent = 0xb702
	return call(syscall.SYS_IOCTL, f.Fd(), getParent, 0)
}

// strangers are processes that it sees in addition to itself, such as what holds
// the Pod.
func strangers() error {
	all, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, p := range all {
		if n, err := strconv.Atoi(p.Name()); err == nil && n != os.Getpid() {
			return nil
		}
	}
	return os.ErrNotExist
}
