// SPDX-License-Identifier: Apache-2.0

package supervisor

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
	how := &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	for {
		fd, err := unix.Openat2(root, p, how)
		// The kernel returns an error when the tree is renamed meanwhile.
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// makeFolder creates a folder and its parents below a root, and opens it.
func makeFolder(root int, p string) (int, error) {
	fd, err := Inside(root, p, unix.O_PATH|unix.O_DIRECTORY)
	if !errors.Is(err, unix.ENOENT) {
		return fd, err
	}
	above, name := path.Split(strings.TrimSuffix(p, "/"))
	if name == "" {
		return -1, err
	}
	parent, err := makeFolder(root, above)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(parent) }() // opened with O_PATH
	if err := unix.Mkdirat(parent, name, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, fmt.Errorf("make folder %s: %w", p, err)
	}
	return Inside(root, p, unix.O_PATH|unix.O_DIRECTORY)
}

// makeFile creates an empty file below a root, if it does not exist, and opens it.
func makeFile(root int, p string) (int, error) {
	fd, err := Inside(root, p, unix.O_PATH)
	if !errors.Is(err, unix.ENOENT) {
		return fd, err
	}
	above, name := path.Split(p)
	parent, err := makeFolder(root, above)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(parent) }() // opened with O_PATH
	made, err := unix.Openat(parent, name, unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err == nil {
		err = unix.Close(made)
	}
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, fmt.Errorf("make file %s: %w", p, err)
	}
	return Inside(root, p, unix.O_PATH)
}
