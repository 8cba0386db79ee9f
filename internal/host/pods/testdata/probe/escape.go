// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// Numbers of calls that the standard library does not name, which amd64 and
// arm64 share above 424.
const (
	sysOpenTree, sysFsopen, sysIoUring, sysPidfdOpen, sysPidfdGetfd = 428, 430, 425, 434, 438
)

func call(nr uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, e := syscall.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]); e != 0 {
		return e
	}
	return nil
}

func pointer(s string) uintptr {
	b := append([]byte(s), 0)
	return uintptr(unsafe.Pointer(&b[0]))
}

// inside refuses to attack anything but the Pod that it was asked to attack.
func inside() error {
	status, err := os.ReadFile("/proc/self/status")
	switch {
	case err != nil:
		return err
	case os.Getpid() != 1:
		return errors.New("not process 1 of a container")
	case !bytes.Contains(status, []byte("NoNewPrivs:\t1")):
		return errors.New("new privileges are not forbidden")
	case os.Getenv("CAPSTAN_TEST_ESCAPE") != "this Pod":
		return errors.New("not asked for")
	}
	return nil
}

// escape tries to get out. Each attempt that works is a line "ESCAPED"; what was
// tried is counted. Its arguments are of the host: an address that listens on its
// loopback, an abstract socket, a path of a file, and a process.
func escape(args []string) error {
	if err := inside(); err != nil {
		return fmt.Errorf("refused: this runs in a Pod of a test alone: %w", err)
	}
	escaped, tried := 0, 0
	for name, attempt := range attempts(args[0], args[1], args[2], args[3]) {
		tried++
		if err := attempt(); err == nil {
			escaped++
			fmt.Println("ESCAPED:", name)
		} else {
			fmt.Printf("held: %s: %v\n", name, err)
		}
	}
	fmt.Printf("tried %d, escaped %d\n", tried, escaped)
	return nil
}

func open(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		f.Close()
	}
	return err
}

func dial(network, address string) error {
	c, err := net.DialTimeout(network, address, 2*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err = c.Write([]byte("GET / HTTP/1.0\r\n\r\n")); err == nil {
		_, err = c.Read(make([]byte, 1))
	}
	return err
}

func socket(family, kind, protocol int) func() error {
	return func() error {
		fd, err := syscall.Socket(family, kind, protocol)
		if err == nil {
			syscall.Close(fd)
		}
		return err
	}
}

func attempts(loopback, abstract, file, process string) map[string]func() error {
	all := map[string]func() error{
		"mount a tmpfs":       func() error { return syscall.Mount("tmpfs", "/tmp", "tmpfs", 0, "") },
		"mount proc":          func() error { return syscall.Mount("proc", "/proc", "proc", 0, "") },
		"remount the root":    func() error { return syscall.Mount("", "/", "", syscall.MS_REMOUNT|syscall.MS_BIND, "") },
		"unmount a mask":      func() error { return syscall.Unmount("/proc/kcore", 0) },
		"pivot the root":      func() error { return call(syscall.SYS_PIVOT_ROOT, pointer("."), pointer(".")) },
		"chroot":              func() error { return syscall.Chroot("/proc") },
		"open a tree":         func() error { return call(sysOpenTree, ^uintptr(99), pointer("/"), 1) },
		"open a file system":  func() error { return call(sysFsopen, pointer("tmpfs"), 0) },
		"a user namespace":    func() error { return syscall.Unshare(syscall.CLONE_NEWUSER) },
		"a mount namespace":   func() error { return syscall.Unshare(syscall.CLONE_NEWNS) },
		"a network namespace": func() error { return syscall.Unshare(syscall.CLONE_NEWNET) },
		"enter a namespace":   enter,
		"trace":               func() error { return syscall.PtraceAttach(1) },
		"trace itself":        func() error { return call(syscall.SYS_PTRACE, 0, 0, 0, 0) },
		"bpf":                 func() error { return call(syscall.SYS_PRCTL+bpfOffset, 0, 0, 0) },
		"performance counters": func() error {
			return call(sysPerf, pointer(strings.Repeat("\x00", 128)), 0, ^uintptr(0), ^uintptr(0), 0)
		},
		"user faults":              func() error { return call(sysUserfaultfd, 0) },
		"io_uring":                 func() error { return call(sysIoUring, 1, pointer(strings.Repeat("\x00", 128))) },
		"keyrings":                 func() error { return call(sysKeyctl, 0, ^uintptr(2), 1) },
		"add a key":                func() error { return call(sysAddKey, pointer("user"), pointer("x"), pointer("x"), 1, ^uintptr(2)) },
		"a kernel module":          func() error { return call(sysInitModule, 0, 0, pointer("")) },
		"reboot":                   func() error { return call(syscall.SYS_REBOOT, 0xfee1dead, 672274793, 0) },
		"the kernel's log":         func() error { return call(syscall.SYS_SYSLOG, 10, 0, 0) },
		"the clock":                func() error { tv := syscall.Timeval{Sec: 1}; return syscall.Settimeofday(&tv) },
		"the host name":            func() error { return syscall.Sethostname([]byte("x")) },
		"open by handle":           func() error { return call(sysOpenByHandle, ^uintptr(99), pointer(strings.Repeat("\x00", 16)), 0) },
		"a raw socket":             socket(syscall.AF_INET, syscall.SOCK_RAW, syscall.IPPROTO_ICMP),
		"a packet socket":          socket(syscall.AF_PACKET, syscall.SOCK_RAW, 0x300),
		"a vsock":                  socket(40, syscall.SOCK_STREAM, 0),
		"the kernel's ciphers":     socket(38, syscall.SOCK_SEQPACKET, 0),
		"a device node":            func() error { return syscall.Mknod("/tmp/mem", syscall.S_IFCHR|0o600, 1<<8|1) },
		"a disk":                   func() error { return syscall.Mknod("/tmp/disk", syscall.S_IFBLK|0o600, 8<<8) },
		"become root":              func() error { return other(syscall.Setuid) },
		"become another group":     func() error { return other(syscall.Setgid) },
		"set groups":               func() error { return syscall.Setgroups([]int{0}) },
		"a capability":             capability,
		"a set-id program":         setID,
		"the host's loopback":      func() error { return dial("tcp", loopback) },
		"a host's abstract socket": func() error { return dial("unix", "@"+abstract) },
		"the metadata address":     func() error { return dial("tcp", "169.254.169.254:80") },
		"the plane's relay":        func() error { return dial("tcp", "127.99.99.99:1") },
		"another Pod":              func() error { return dial("tcp", "10.244.0.8:9443") },
		"the plane's file":         func() error { _, err := os.ReadFile(file); return err },
		"it through a process":     func() error { _, err := os.ReadFile("/proc/1/root/../../.." + file); return err },
		"it through /proc":         func() error { _, err := os.ReadFile("/proc/" + process + "/root" + file); return err },
		"signal a process of it":   func() error { n, _ := strconv.Atoi(process); return syscall.Kill(n, 0) },
		"a pidfd of the plane":     func() error { n, _ := strconv.Atoi(process); return call(sysPidfdOpen, uintptr(n), 0) },
		"take a descriptor":        func() error { return call(sysPidfdGetfd, 0, 0, 0) },
		"an open descriptor":       descriptors,
		"/sys":                     func() error { _, err := os.ReadDir("/sys/kernel"); return err },
		"a control group": func() error {
			found, _ := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
			if len(found) == 0 {
				return os.ErrNotExist
			}
			return open(found[0])
		},
		"the host's memory": func() error { b, err := os.ReadFile("/proc/kcore"); return empty(b, err) },
		"keys of others":    func() error { b, err := os.ReadFile("/proc/keys"); return empty(b, err) },
		"this program":      func() error { return open("/proc/self/exe") },
		"type into a terminal": func() error {
			return call(syscall.SYS_IOCTL, 0, syscall.TIOCSTI, pointer("x"))
		},
	}
	for _, f := range []string{"sys/kernel/core_pattern", "sys/kernel/hostname", "sys/net/ipv4/ip_forward", "sys/vm/overcommit_memory", "sysrq-trigger", "sys/kernel/modprobe"} {
		all["write /proc/"+f] = func() error { return open("/proc/" + f) }
	}
	maps.Copy(all, more(file))
	all["another id by a map"] = func() error { return rewrite("/proc/self/uid_map", "0 0 1") }
	all["groups by a map"] = func() error { return rewrite("/proc/self/setgroups", "allow") }
	return all
}

func rewrite(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}

// other changes to an id that is not one's own.
func other(set func(int) error) error {
	if os.Getuid() == 0 {
		return set(1)
	}
	return set(0)
}

func empty(b []byte, err error) error {
	if err == nil && len(b) == 0 {
		return errors.New("it is empty")
	}
	return err
}

func enter() error {
	f, err := os.Open("/proc/1/ns/net")
	if err != nil {
		return err
	}
	return call(sysSetns, f.Fd(), 0)
}

func capability() error {
	head := [2]uint32{0x20080522, 0}
	data := [6]uint32{1 << 21, 1 << 21, 0}
	return call(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&data)))
}

// setID gains from a program with the set-id bit.
func setID() error {
	if err := os.Chmod("/bin/probe", 0o6755); err != nil {
		return err
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs("/bin", &st); err != nil {
		return err
	}
	const nosuid = 2
	if st.Flags&nosuid != 0 {
		return errors.New("the root is mounted nosuid")
	}
	return nil
}

// descriptors are open and lead out.
func descriptors() error {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, d := range all {
		to, err := os.Readlink("/proc/self/fd/" + d.Name())
		if err != nil {
			continue
		}
		if strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "/proc") && to != "/dev/null" {
			fmt.Println("open:", to)
			return nil
		}
		if n, _ := strconv.Atoi(d.Name()); strings.HasPrefix(to, "socket:") && n > 2 {
			fmt.Println("open:", to)
			return nil
		}
	}
	return errors.New("none")
}
