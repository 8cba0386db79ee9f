// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Inside opens a path below a root as a process would for which that is /: no
// link leads out of it, be it absolute or full of dots. What the path names need
// not be readable: with unix.O_PATH in flags it is only named.
func Inside(root int, p string, flags uint64) (int, error) {
	how := &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	for {
		fd, err := unix.Openat2(root, p, how)
		// The kernel gives up when the tree is renamed meanwhile.
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// makeFolder makes a folder below a root, with those above it, and opens it.
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
	defer func() { _ = unix.Close(parent) }() // it was only named
	if err := unix.Mkdirat(parent, name, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, fmt.Errorf("make folder %s: %w", p, err)
	}
	return Inside(root, p, unix.O_PATH|unix.O_DIRECTORY)
}

// makeFile makes an empty file below a root, if there is none, and opens it.
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
	defer func() { _ = unix.Close(parent) }() // it was only named
	made, err := unix.Openat(parent, name, unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err == nil {
		err = unix.Close(made)
	}
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, fmt.Errorf("make file %s: %w", p, err)
	}
	return Inside(root, p, unix.O_PATH)
}
