// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// The descriptors of the first process in addition to its terminal.
const (
	firstPlan  = 3 // where it reads what to do
	firstError = 4 // where it writes its error
)

// dropped are capabilities that no process of a container has: they affect the
// whole host, and no program expects them in a container.
var dropped = []uintptr{unix.CAP_SYS_MODULE, unix.CAP_SYS_RAWIO, unix.CAP_SYS_TIME}

// first creates the root of a container and becomes its first process. It returns
// only on failure.
func first() int {
	unix.CloseOnExec(firstError)
	if err := become(); err != nil {
		_, _ = io.WriteString(os.NewFile(firstError, "error"), err.Error()) // or the supervisor notices the exit
	}
	return 1
}

func become() error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("tie the first process to its supervisor: %w", err)
	}
	// If the supervisor has exited already, nothing can be read.
	plan := os.NewFile(firstPlan, "plan")
	var f First
	if err := json.NewDecoder(plan).Decode(&f); err != nil {
		return fmt.Errorf("read what to run: %w", err)
	}
	if err := plan.Close(); err != nil {
		return err
	}
	// Not earlier: the root of the groups that a container sees is the current group
	// of the process, and on version 1 the process was moved.
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("make a cgroup namespace: %w", err)
	}
	if err := unix.Sethostname([]byte(f.Hostname)); err != nil {
		return fmt.Errorf("set the hostname: %w", err)
	}
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("set loopback up: %w", err)
	}
	unix.Umask(0)
	if err := enterRoot(f); err != nil {
		return err
	}
	unix.Umask(0o022)
	for _, c := range dropped {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	err := unix.Exec(f.Args[0], f.Args, f.Env)
	if errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("run %s: it, or the interpreter or loader that it names, is not in Root", f.Args[0])
	}
	return fmt.Errorf("run %s: %w", f.Args[0], err)
}

// loopbackUp sets the link lo up, which every program expects.
func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(s) }() // nothing was sent
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(s, unix.SIOCGIFFLAGS, r); err != nil {
		return err
	}
	r.SetUint16(r.Uint16() | unix.IFF_UP)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, r)
}

// enterRoot creates the root in the mount namespace of this process and detaches
// that of the host.
func enterRoot(f First) error {
	// Mounts here must not affect other processes, nor theirs this one.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("part from the mounts of the host: %w", err)
	}
	b := builder{top: f.Top, terminal: f.Terminal, root: -1, kept: map[string]int{}}
	for _, s := range f.Steps {
		if err := b.do(s); err != nil && !(s.Where && errors.Is(err, unix.ENOENT)) {
			return fmt.Errorf("%s %s: %w", s.Op, s.Target, err)
		}
	}
	// The old root is mounted over the new one, and then unmounted.
	if err := unix.Fchdir(b.root); err != nil {
		return fmt.Errorf("enter the root: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the root of the host: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return fmt.Errorf("enter the root: %w", err)
	}
	// Programs that create namespaces in the container, such as kubelet, expect what
	// an ordinary host has: later namespaces see its mounts.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share the mounts of the container: %w", err)
	}
	return nil
}

// builder executes the steps of one root. Its descriptors are closed when the first
// process executes the container's own program.
type builder struct {
	top, terminal string
	root          int
	kept          map[string]int // detached mounts by their targets
}

// magic returns the path by which this process names an open file.
func magic(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

func (b *builder) do(s Step) error {
	switch s.Op {
	case Overlay:
		return b.overlay(s)
	case Mount:
		at, err := makeFolder(b.root, s.Target)
		if err != nil {
			return err
		}
		return unix.Mount(s.Source, magic(at), s.Type, mountFlags(s.Flags), s.Data)
	case Bind:
		return b.bind(s.Source, s.Target)
	case Terminal:
		return b.bind(b.terminal, s.Target)
	case Again:
		at, err := Inside(b.root, s.Target, unix.O_PATH)
		if err != nil {
			return err
		}
		return unix.Mount(magic(at), magic(at), "", unix.MS_BIND|unix.MS_REC, "")
	case Keep:
		at, err := Inside(b.root, s.Target, unix.O_PATH)
		if err != nil {
			return err
		}
		b.kept[s.Target], err = unix.OpenTree(at, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
		return err
	case Restore:
		at, err := Inside(b.root, s.Target, unix.O_PATH)
		if err != nil {
			return err
		}
		return unix.MoveMount(b.kept[s.Target], "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	case ReadOnly, Locked:
		return b.refuseWrites(s.Target, s.Op == Locked)
	case Folder:
		_, err := makeFolder(b.root, s.Target)
		return err
	case Link:
		above, name := path.Split(s.Target)
		parent, err := makeFolder(b.root, above)
		if err != nil {
			return err
		}
		return unix.Symlinkat(s.Source, parent, name)
	}
	return fmt.Errorf("%s is no step", s.Op)
}

// overlay names layers by descriptors: their paths may exceed the kernel's limit
// together and contain commas and colons.
func (b *builder) overlay(s Step) error {
	var err error
	open := func(dir string) (name string) {
		if err != nil {
			return ""
		}
		fd, e := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if e != nil {
			err = fmt.Errorf("open layer %s: %w", dir, e)
		}
		return magic(fd)
	}
	var lower []string
	for _, l := range s.Layers {
		lower = append(lower, open(l))
	}
	data := "lowerdir=" + strings.Join(lower, ":") + ",upperdir=" + open(s.Upper) + ",workdir=" + open(s.Work)
	if err != nil {
		return err
	}
	if err := unix.Mount("overlay", b.top, "overlay", 0, data); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	b.root, err = unix.Open(b.top, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return err
}

// bind creates the target as the same kind of file as the source, and binds the
// source.
func (b *builder) bind(source, target string) error {
	from, err := unix.Open(source, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s of the host: %w", source, err)
	}
	var what unix.Stat_t
	if err := unix.Fstat(from, &what); err != nil {
		return err
	}
	make := makeFile
	if what.Mode&unix.S_IFMT == unix.S_IFDIR {
		make = makeFolder
	}
	at, err := make(b.root, target)
	if err != nil {
		return err
	}
	return unix.Mount(magic(from), magic(at), "", unix.MS_BIND|unix.MS_REC, "")
}

func (b *builder) refuseWrites(target string, below bool) error {
	at, err := Inside(b.root, target, unix.O_PATH)
	if err != nil {
		return err
	}
	flags := uint(unix.AT_EMPTY_PATH)
	if below {
		flags |= unix.AT_RECURSIVE
	}
	return unix.MountSetattr(at, "", flags, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

func mountFlags(names []string) (flags uintptr) {
	for _, n := range names {
		flags |= map[string]uintptr{"ro": unix.MS_RDONLY, "nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV, "noexec": unix.MS_NOEXEC}[n]
	}
	return flags
}
