// SPDX-License-Identifier: Apache-2.0

package layers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Copy copies a folder to a path that must not exist yet. A file is linked if
// linked returns true for its path in the folder and both are on one file system;
// its contents are then shared and must not be written in place. All other files
// are copied.
func Copy(ctx context.Context, from, to string, linked func(path string) bool) error {
	err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		return copyOne(path, filepath.Join(to, name), e.Type(), linked(name))
	})
	if err != nil {
		return fmt.Errorf("copy %s to %s: %w", from, to, err)
	}
	return nil
}

func copyOne(from, to string, kind fs.FileMode, linked bool) error {
	if linked && kind != fs.ModeDir {
		if err := os.Link(from, to); !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.EMLINK) {
			return err
		}
	}
	var st unix.Stat_t
	if err := unix.Lstat(from, &st); err != nil {
		return &fs.PathError{Op: "lstat", Path: from, Err: err}
	}
	var err error
	switch {
	case kind == fs.ModeDir:
		err = os.Mkdir(to, 0o700)
	case kind == fs.ModeSymlink:
		err = copyLink(from, to)
	case kind == 0:
		err = CopyFile(from, to, 0o600)
	case isMarker(&st):
		err = unix.Mknod(to, unix.S_IFCHR, 0)
	default:
		err = fmt.Errorf("%s is a %s: only folders, files and links can be copied", from, kindOf(uint32(st.Mode)))
	}
	if err != nil {
		return err
	}
	return takeAttributes(from, to, &st)
}

// takeAttributes gives a file the owner, permissions, extended attributes and time
// of another. Permissions are set after the owner, since changing it clears setuid.
func takeAttributes(from, to string, st *unix.Stat_t) error {
	var own unix.Stat_t
	if err := unix.Lstat(to, &own); err != nil {
		return &fs.PathError{Op: "lstat", Path: to, Err: err}
	}
	if own.Uid != st.Uid || own.Gid != st.Gid {
		if err := os.Lchown(to, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	attributes, err := attributesOf(from)
	if err != nil {
		return err
	}
	for _, a := range attributes {
		name, value, _ := strings.Cut(a, "=")
		if err := unix.Lsetxattr(to, name, []byte(value), 0); err != nil {
			return &fs.PathError{Op: "lsetxattr " + name, Path: to, Err: err}
		}
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return nil // the permissions and time of a link do not matter
	}
	if err := unix.Chmod(to, uint32(st.Mode&0o7777)); err != nil {
		return &fs.PathError{Op: "chmod", Path: to, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil // the times of folders change when files are added
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, to, []unix.Timespec{st.Atim, st.Mtim}, 0)
}

func copyLink(from, to string) error {
	target, err := os.Readlink(from)
	if err != nil {
		return err
	}
	return os.Symlink(target, to)
}

// CopyFile copies the content of a file to one that must not exist yet.
func CopyFile(from, to string, mode fs.FileMode) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // only read
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(mode)) // independent of the umask
}
