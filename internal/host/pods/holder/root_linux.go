// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// top is where a root is assembled. It hides the host's folder in this mount
// namespace alone.
const top = "/tmp"

// plain are flags of all mounts except devices.
const plain = unix.MS_NOSUID | unix.MS_NODEV

// devices are those of a container; everything else in /dev is created.
var devices = []string{"full", "null", "random", "tty", "urandom", "zero"}

// makeRoot creates the root of a container and enters it.
func makeRoot(p Plan) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	// Folders of the host are opened before top hides some of them.
	image, _, err := tree(p.Root)
	if err != nil {
		return fmt.Errorf("take the image: %w", err)
	}
	trees, folders := make([]int, len(p.Mounts)), make([]bool, len(p.Mounts))
	for i, m := range p.Mounts {
		if m.Tmpfs == 0 && !m.Message {
			if trees[i], folders[i], err = tree(m); err != nil {
				return fmt.Errorf("mount %s: %w", m.Target, err)
			}
		}
	}
	nodes := map[string]int{}
	for _, d := range devices {
		if nodes[d], err = unix.OpenTree(unix.AT_FDCWD, "/dev/"+d, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC); err != nil {
			return fmt.Errorf("take the device %s: %w", d, err)
		}
	}
	root, err := overlay(image, p.Scratch)
	if err != nil {
		return err
	}
	in, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // only read
	if err := write(in, p.Files); err != nil {
		return err
	}
	if err := kernelFolders(in, root, nodes, p.Autogroup > 0); err != nil {
		return err
	}
	for i, m := range p.Mounts {
		switch {
		case m.Message:
			err = lastMessage(in, m)
		case m.Tmpfs > 0:
			err = tmpfs(in, m)
		default:
			err = attach(in, trees[i], folders[i], m)
		}
		if err != nil {
			return fmt.Errorf("mount %s: %w", m.Target, err)
		}
	}
	return leave(root, p.ReadOnly)
}

// tree returns a mount that is not attached yet, and whether it is a folder.
func tree(m Mount) (fd int, folder bool, err error) {
	if m.Descriptor >= 0 {
		fd = treesAt + m.Descriptor
	} else if fd, err = OpenTree(m.Source, m.SubPath); err != nil {
		return 0, false, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, false, err
	}
	return fd, st.Mode&unix.S_IFMT == unix.S_IFDIR, nil
}

// OpenTree returns a detached mount of a path, or of a path below it. No link leads
// out of the path.
func OpenTree(source, sub string) (int, error) {
	const flags = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC
	if sub == "" {
		fd, err := unix.OpenTree(unix.AT_FDCWD, source, flags)
		return fd, pathError("open tree", source, err)
	}
	from, err := unix.Open(source, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, pathError("open", source, err)
	}
	defer func() { _ = unix.Close(from) }() // opened with O_PATH
	at, err := unix.Openat2(from, path.Clean(sub), &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return 0, pathError("open below "+source, sub, err)
	}
	defer func() { _ = unix.Close(at) }() // nothing was written
	fd, err := unix.OpenTree(at, "", flags|unix.AT_EMPTY_PATH)
	return fd, pathError("open tree", path.Join(source, sub), err)
}

func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// overlay mounts the image with memory above it. It does so for a read-only root,
// too, where mount points that the image lacks are created.
func overlay(image int, scratch int64) (root string, err error) {
	if err := unix.Mount("tmpfs", top, "tmpfs", plain, inMemory(scratch)+",mode=755"); err != nil {
		return "", fmt.Errorf("mount memory for the root: %w", err)
	}
	for _, d := range []string{"lower", "upper", "work", "root"} {
		if err := os.Mkdir(top+"/"+d, 0o755); err != nil {
			return "", err
		}
	}
	if err := unix.MoveMount(image, "", unix.AT_FDCWD, top+"/lower", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return "", fmt.Errorf("mount the image: %w", err)
	}
	root = top + "/root"
	data := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work,userxattr", top)
	if err := unix.Mount("overlay", root, "overlay", plain, data); err != nil {
		return "", fmt.Errorf("mount an overlay of the image (in user namespaces it needs Linux 5.11 or newer): %w", err)
	}
	return root, nil
}

// write writes small files of the sandbox. The image may have links there.
func write(in *os.Root, files map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := in.MkdirAll(path.Dir(name), 0o755); err != nil {
			return fmt.Errorf("write /%s: %w", name, err)
		}
		if err := in.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("replace /%s: %w", name, err)
		}
		if err := in.WriteFile(name, files[name], 0o644); err != nil {
			return fmt.Errorf("write /%s: %w", name, err)
		}
	}
	return nil
}

// attach attaches a mount at a path of the new root. The path is opened from there,
// so that a link of the image leads nowhere else.
func attach(in *os.Root, tree int, folder bool, m Mount) error {
	target := strings.Trim(path.Clean(m.Target), "/")
	var to *os.File
	var err error
	if folder {
		if err = in.MkdirAll(target, 0o755); err == nil {
			to, err = in.Open(target)
		}
	} else {
		if err = in.MkdirAll(path.Dir(target), 0o755); err == nil {
			to, err = in.OpenFile(target, os.O_CREATE|os.O_RDONLY, 0o644)
		}
	}
	if err != nil {
		return err
	}
	defer func() { _ = to.Close() }() // nothing was written
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if m.ReadOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	// Not later, or processes could see it without these attributes.
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return os.NewSyscallError("mount_setattr", err)
	}
	return os.NewSyscallError("move_mount", unix.MoveMount(tree, "", int(to.Fd()), "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH))
}

func tmpfs(in *os.Root, m Mount) error {
	target := strings.Trim(path.Clean(m.Target), "/")
	if err := in.MkdirAll(target, 0o755); err != nil {
		return err
	}
	d, err := in.Open(target)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // nothing was written
	flags := uintptr(plain)
	if m.ReadOnly {
		flags |= unix.MS_RDONLY
	}
	return unix.Mount("tmpfs", fmt.Sprintf("/proc/self/fd/%d", d.Fd()), "tmpfs", flags, inMemory(m.Tmpfs)+",mode=1777")
}

// lastMessage mounts the file of the last message, which is in memory, and sends
// its descriptor to the plane, which reads it when the container has exited.
func lastMessage(in *os.Root, m Mount) error {
	const dir, name = top + "/message", top + "/message/file"
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", plain|unix.MS_NOEXEC, inMemory(messageBytes)+",mode=755"); err != nil {
		return os.NewSyscallError("mount", err)
	}
	if err := errors.Join(os.WriteFile(name, nil, 0o600), os.Chmod(name, 0o666)); err != nil {
		return err
	}
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return pathError("open", name, err)
	}
	if err := errors.Join(send(treesAt+m.Descriptor, Event{Kind: Done}, fd), unix.Close(fd)); err != nil {
		return fmt.Errorf("give the plane its descriptor: %w", err)
	}
	file, err := OpenTree(name, "")
	if err != nil {
		return err
	}
	return attach(in, file, false, m)
}

// messageBytes is the size of the memory of a last message: 4 KiB of it are read,
// and programs may write more.
const messageBytes = 64 << 10

// inMemory returns the limits of a tmpfs: bytes, and as many files as fill them
// with blocks of the smallest size, since files without content take memory, too.
func inMemory(bytes int64) string {
	return fmt.Sprintf("size=%d,nr_inodes=%d", bytes, max(bytes>>12, 16))
}

// kernelFolders creates /proc and a /dev with a few devices. There is no /sys.
func kernelFolders(in *os.Root, root string, nodes map[string]int, readOnlyProc bool) error {
	for _, d := range []string{"proc", "dev"} {
		if info, err := in.Lstat(d); err == nil && !info.IsDir() {
			return fmt.Errorf("/%s of the image is no folder: the sandbox needs it for its own", d)
		}
		if err := in.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	dev := root + "/dev"
	if err := unix.Mount("tmpfs", dev, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "size=64k,nr_inodes=64,mode=755"); err != nil {
		return fmt.Errorf("mount /dev: %w", err)
	}
	for name, node := range nodes {
		if err := os.WriteFile(path.Join(dev, name), nil, 0o666); err != nil {
			return err
		}
		if err := unix.MoveMount(node, "", unix.AT_FDCWD, path.Join(dev, name), unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("mount the device %s: %w", name, err)
		}
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(to, path.Join(dev, name)); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dev+"/shm", 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", dev+"/shm", "tmpfs", plain|unix.MS_NOEXEC, inMemory(16<<20)+",mode=1777"); err != nil {
		return fmt.Errorf("mount /dev/shm: %w", err)
	}
	return proc(root, dev, readOnlyProc)
}

// hidden are files of /proc that reveal data of the host, and frozen those that
// change it.
var (
	hidden = []string{"acpi", "asound", "interrupts", "kallsyms", "kcore", "keys", "key-users", "kmsg", "kpagecgroup", "kpagecount", "kpageflags", "latency_stats", "sched_debug", "scsi", "timer_list", "timer_stats", "vmallocinfo"}
	frozen = []string{"bus", "fs", "irq", "sys", "sysrq-trigger"}
)

// proc mounts /proc. readOnly protects the weight of the Pod's session, which is in
// a file of each process.
func proc(root, dev string, readOnly bool) error {
	at := root + "/proc"
	const flags = plain | unix.MS_NOEXEC
	all := uintptr(flags)
	if readOnly {
		all |= unix.MS_RDONLY
	}
	if err := unix.Mount("proc", at, "proc", all, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	for _, name := range hidden {
		file := path.Join(at, name)
		info, err := os.Lstat(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && info.IsDir() {
			err = unix.Mount("tmpfs", file, "tmpfs", flags|unix.MS_RDONLY, "size=4k,mode=555")
		} else if err == nil {
			err = unix.Mount(dev+"/null", file, "", unix.MS_BIND, "")
		}
		if err != nil {
			return fmt.Errorf("hide /proc/%s: %w", name, err)
		}
	}
	for _, name := range frozen {
		file := path.Join(at, name)
		err := unix.Mount(file, file, "", unix.MS_BIND|unix.MS_REC, "")
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err == nil {
			err = unix.Mount("", file, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|flags, "")
		}
		if err != nil {
			return fmt.Errorf("freeze /proc/%s: %w", name, err)
		}
	}
	return nil
}

// empty creates a root that has only the /proc of the Pod, and enters it: open
// files of the holder lead nowhere else.
func empty() error {
	if err := unix.Mount("tmpfs", top, "tmpfs", plain|unix.MS_NOEXEC, "size=4k,mode=555"); err != nil {
		return fmt.Errorf("mount an empty root: %w", err)
	}
	if err := os.Mkdir(top+"/proc", 0o555); err != nil {
		return err
	}
	if err := unix.Mount("/proc", top+"/proc", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount /proc in an empty root: %w", err)
	}
	return leave(top, true)
}

// leave makes the new root the only one.
func leave(root string, readOnly bool) error {
	if readOnly {
		if err := unix.Mount("", root, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|plain, ""); err != nil {
			return fmt.Errorf("make the root read-only: %w", err)
		}
	}
	if err := unix.Chdir(root); err != nil {
		return fmt.Errorf("enter the new root: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the host's root: %w", err)
	}
	return os.NewSyscallError("chdir", unix.Chdir("/"))
}
