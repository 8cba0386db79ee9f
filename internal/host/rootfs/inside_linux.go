// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Inside opens a path below a root like a process whose root it is: no absolute
// link and no ".." leads out of it. The file need not be readable if flags contain
// unix.O_PATH.
func Inside(root int, p string, flags uint64) (int, error) {
	return folder{root, unix.RESOLVE_IN_ROOT}.open(p, flags)
}

// folder is a folder below which paths are resolved.
type folder struct {
	fd int
	// how limits links: unix.RESOLVE_IN_ROOT, RESOLVE_BENEATH or RESOLVE_NO_SYMLINKS.
	how uint64
}

func (f folder) open(p string, flags uint64) (int, error) {
	p = "./" + strings.TrimLeft(p, "/")
	for {
		fd, err := unix.Openat2(f.fd, p, &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: f.how | unix.RESOLVE_NO_MAGICLINKS})
		switch {
		// The kernel returns an error when the tree is renamed meanwhile.
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EXDEV):
			err = fmt.Errorf("a link leads out of the root: %w", err)
		}
		return fd, err
	}
}

// makeFolder creates a folder and its parents, and opens it.
func (f folder) makeFolder(p string) (int, error) {
	return f.make(p, unix.O_DIRECTORY, func(parent int, name string) error { return unix.Mkdirat(parent, name, 0o755) })
}

// makeFile creates an empty file, if it does not exist, and opens it.
func (f folder) makeFile(p string) (int, error) {
	return f.make(p, 0, func(parent int, name string) error { return create(parent, name, nil) })
}

func (f folder) make(p string, flags uint64, create func(parent int, name string) error) (int, error) {
	fd, err := f.open(p, unix.O_PATH|flags)
	if !errors.Is(err, unix.ENOENT) {
		return fd, err
	}
	if err := f.in(p, create); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, fmt.Errorf("create %s: %w", p, err)
	}
	return f.open(p, unix.O_PATH|flags)
}

// in calls do with the folder of a path, which is created, and the name there.
func (f folder) in(p string, do func(parent int, name string) error) error {
	above, name := path.Split(strings.TrimSuffix(p, "/"))
	if name == "" {
		return unix.ENOENT
	}
	parent, err := f.makeFolder(above)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(parent) }() // opened with O_PATH
	return do(parent, name)
}

// create creates a file, and follows no link at its name.
func create(parent int, name string, content []byte) error {
	fd, err := unix.Openat(parent, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	for len(content) > 0 && err == nil {
		var n int
		n, err = unix.Write(fd, content)
		content = content[max(n, 0):]
	}
	return errors.Join(err, unix.Close(fd))
}

// replace is create after an earlier file, link or empty folder was removed.
func replace(parent int, name string, content []byte) error {
	err := unix.Unlinkat(parent, name, 0)
	if errors.Is(err, unix.EISDIR) {
		err = unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return create(parent, name, content)
}
