// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Enter creates the root in the mount namespace of this process, and detaches that
// of the host. Descriptors that it opens are closed when the process executes a
// program.
func (r Root) Enter() error {
	// Mounts here must not affect other processes, nor theirs this one.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("part from the mounts of the host: %w", err)
	}
	unix.Umask(0)
	defer unix.Umask(0o022)
	b := builder{top: r.Top, folder: folder{-1, unix.RESOLVE_IN_ROOT}, trees: make([]int, len(r.Steps))}
	if r.Strict {
		b.how = unix.RESOLVE_BENEATH
	}
	// What is in folders of the host is taken before the top hides some of them.
	for i, s := range r.Steps {
		var err error
		switch s.Op {
		case Bind:
			b.trees[i], err = s.take()
		case Message:
			b.trees[i], err = b.message(s)
		}
		if err != nil && s.Target == imageFolder {
			return fmt.Errorf("take the image: %w", err)
		}
		if err != nil {
			return fmt.Errorf("mount %s: %w", s.Target, err)
		}
	}
	for i, s := range r.Steps {
		if err := b.do(s, b.trees[i]); err != nil && !(s.Optional && errors.Is(err, unix.ENOENT)) {
			op := s.Op
			if op == Bind || op == Message {
				op = Mount
			}
			return fmt.Errorf("%s %s: %w", op, s.Target, err)
		}
	}
	return b.leave(r.Shared)
}

// builder executes the steps of one root.
type builder struct {
	top    string
	folder // the root
	trees  []int
}

// leave makes the new root the only one. The old one is mounted over it, and then
// unmounted.
func (b *builder) leave(shared bool) error {
	if err := unix.Fchdir(b.fd); err != nil {
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
	if !shared {
		return nil
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share the mounts of the container: %w", err)
	}
	return nil
}

// magic returns the path by which this process names an open file.
func magic(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

func (b *builder) do(s Step, tree int) error {
	switch s.Op {
	case Memory:
		if err := unix.Mount("tmpfs", b.top, "tmpfs", uintptr(s.Flags), s.Data); err != nil {
			return err
		}
		return b.become(b.top)
	case Overlay:
		return b.overlay(s)
	case Mount:
		return b.mount(s)
	case Bind, Message:
		return b.bind(s, tree)
	case ReadOnly:
		at, err := b.open(s.Target, unix.O_PATH)
		if err != nil {
			return err
		}
		return refuse(at, RO, false)
	case Freeze:
		return b.freeze(s)
	case Hide:
		return b.hide(s.Target)
	case Folder:
		_, err := b.makeFolder(s.Target)
		return err
	case File:
		return b.in(s.Target, func(parent int, name string) error { return replace(parent, name, s.Content) })
	case Link:
		return b.in(s.Target, func(parent int, name string) error { return unix.Symlinkat(s.Source, parent, name) })
	}
	return errors.New("no such step")
}

// become makes a mounted folder the root of later steps.
func (b *builder) become(dir string) (err error) {
	b.fd, err = unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return err
}

// overlay names layers by descriptors: their paths may exceed the kernel's limit
// together and contain commas and colons.
func (b *builder) overlay(s Step) error {
	var err error
	open := func(dir string) (name string) {
		fd, e := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if e != nil && err == nil {
			err = fmt.Errorf("open layer %s: %w", dir, e)
		}
		return magic(fd)
	}
	var lower []string
	for _, l := range s.Layers {
		lower = append(lower, open(l))
	}
	data := "lowerdir=" + strings.Join(lower, ":") + ",upperdir=" + open(s.Upper) + ",workdir=" + open(s.Work) + s.Data
	if err != nil {
		return err
	}
	if s.Target != "" {
		if _, err := b.makeFolder(s.Target); err != nil {
			return err
		}
	}
	at := path.Join(b.top, s.Target)
	if err := unix.Mount("overlay", at, "overlay", uintptr(s.Flags), data); err != nil {
		return fmt.Errorf("mount the image (in user namespaces it needs Linux 5.11 or newer): %w", err)
	}
	return b.become(at)
}

func (b *builder) mount(s Step) error {
	in := b.folder
	if s.Exact {
		in.how = unix.RESOLVE_NO_SYMLINKS
	}
	at, err := in.makeFolder(s.Target)
	if s.Exact && (errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR)) {
		return fmt.Errorf("it is no folder of the image: the container needs it for its own: %w", err)
	}
	if err != nil {
		return err
	}
	return unix.Mount(s.Source, magic(at), s.Type, uintptr(s.Flags), s.Data)
}

// take returns a mount of the source of a Bind that is not attached yet.
func (s Step) take() (fd int, err error) {
	if s.Descriptor > 0 {
		return s.Descriptor, nil
	}
	return OpenTree(s.Source, s.SubPath, s.Below)
}

// bind attaches a mount. Its target is created as the same kind of file.
func (b *builder) bind(s Step, tree int) error {
	var what unix.Stat_t
	if err := unix.Fstat(tree, &what); err != nil {
		return err
	}
	make := b.makeFile
	if what.Mode&unix.S_IFMT == unix.S_IFDIR {
		make = b.makeFolder
	}
	at, err := make(s.Target)
	if err != nil {
		return err
	}
	return attach(tree, at, s.Flags, s.Below)
}

// attach attaches a mount at an open file. It has its attributes before that, or
// processes could see it without them.
func attach(tree, at int, flags uint64, below bool) error {
	if err := refuse(tree, flags, below); err != nil {
		return err
	}
	if err := unix.MoveMount(tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("move mount: %w", err)
	}
	return nil
}

// refuse adds attributes to a mount, and optionally to all mounts below it.
func refuse(mount int, flags uint64, below bool) error {
	if flags == 0 {
		return nil
	}
	how := uint(unix.AT_EMPTY_PATH)
	if below {
		how |= unix.AT_RECURSIVE
	}
	if err := unix.MountSetattr(mount, "", how, &unix.MountAttr{Attr_set: flags}); err != nil {
		return fmt.Errorf("set the attributes of a mount: %w", err)
	}
	return nil
}

// freeze mounts the target over itself, so that it has separate attributes.
func (b *builder) freeze(s Step) error {
	at, err := b.open(s.Target, unix.O_PATH)
	if err != nil {
		return err
	}
	kept := -1
	if s.Except != "" {
		if kept, err = b.clone(s.Except); err != nil {
			return err
		}
	}
	tree, err := b.clone(s.Target)
	if err == nil {
		err = attach(tree, at, RO, false)
	}
	if err != nil || kept < 0 {
		return err
	}
	if at, err = b.open(s.Except, unix.O_PATH); err != nil {
		return err
	}
	return attach(kept, at, 0, false)
}

// hide covers a file with the null device, and a folder with an empty one.
func (b *builder) hide(target string) error {
	at, err := b.open(target, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	var what unix.Stat_t
	if err := unix.Fstat(at, &what); err != nil {
		return err
	}
	if what.Mode&unix.S_IFMT == unix.S_IFDIR {
		return unix.Mount("tmpfs", magic(at), "tmpfs", RO|NoSUID|NoDev|NoExec, "size=4k,mode=555")
	}
	null, err := b.clone("/dev/null")
	if err != nil {
		return err
	}
	return attach(null, at, 0, false)
}

// clone returns another mount of a path of the root.
func (b *builder) clone(p string) (int, error) {
	at, err := b.open(p, unix.O_PATH)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(at) }() // opened with O_PATH
	return unix.OpenTree(at, "", openTree|unix.AT_EMPTY_PATH)
}

const openTree = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC

// OpenTree returns a detached mount of a path, or of a path below it, and optionally
// of all mounts below. No link leads out of the path.
func OpenTree(source, sub string, below bool) (int, error) {
	flags := uint(openTree | unix.AT_EMPTY_PATH)
	if below {
		flags |= unix.AT_RECURSIVE
	}
	from, err := unix.Open(source, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", source, err)
	}
	defer func() { _ = unix.Close(from) }() // opened with O_PATH
	at := from
	if sub != "" {
		if at, err = (folder{from, unix.RESOLVE_BENEATH}).open(path.Clean(sub), unix.O_PATH); err != nil {
			return -1, fmt.Errorf("open %s below %s: %w", sub, source, err)
		}
		defer func() { _ = unix.Close(at) }() // opened with O_PATH
	}
	tree, err := unix.OpenTree(at, "", flags)
	if err != nil {
		return -1, fmt.Errorf("open the tree of mounts at %s: %w", path.Join(source, sub), err)
	}
	return tree, nil
}

// messageBytes is the size of the memory of a last message: 4 KiB of it are read,
// and programs may write more.
const messageBytes = 64 << 10

// message returns a mount of a new file in memory, and sends a descriptor of the
// file. The memory is mounted on the top only meanwhile.
func (b *builder) message(s Step) (tree int, err error) {
	if err := unix.Mount("tmpfs", b.top, "tmpfs", NoSUID|NoDev|NoExec, Limits(messageBytes)+",mode=755"); err != nil {
		return -1, fmt.Errorf("mount memory: %w", err)
	}
	defer func() { err = errors.Join(err, unix.Unmount(b.top, unix.MNT_DETACH)) }()
	file := b.top + "/file"
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o666)
	if err != nil {
		return -1, fmt.Errorf("create a file in memory: %w", err)
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	if err := unix.Sendmsg(s.Descriptor, []byte("{}"), unix.UnixRights(fd), nil, unix.MSG_NOSIGNAL); err != nil {
		return -1, fmt.Errorf("send its descriptor: %w", err)
	}
	return OpenTree(file, "", false)
}
