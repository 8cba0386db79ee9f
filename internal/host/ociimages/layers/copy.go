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

	"golang.org/x/sys/unix"
)

// Copy copies a folder to a path that must not exist yet. A file is linked if
// linked returns true for its path in the folder and both are on one file system;
// its contents are then shared and must not be written in place. All other files
// are copied.
func Copy(ctx context.Context, from, to string, linked func(path string) bool) error {
	err := errors.Join(os.Mkdir(to, 0o700), os.Chmod(to, 0o755))
	if err == nil {
		err = visit(ctx, from, ".", func(e *entry, path string, d fs.DirEntry) error {
			return e.copy(path, filepath.Join(to, string(e.Name)), d, linked(string(e.Name)))
		})
	}
	if err != nil {
		return fmt.Errorf("copy %s to %s: %w", from, to, err)
	}
	return nil
}

func (e *entry) copy(from, to string, d fs.DirEntry, linked bool) error {
	if linked && e.Kind != folder {
		if err := os.Link(from, to); !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.EMLINK) {
			return err
		}
	}
	var err error
	switch {
	case e.Kind == folder:
		err = os.Mkdir(to, 0o700)
	case e.Kind == symlink:
		err = os.Symlink(string(e.Link), to)
	case d.Type() == 0:
		err = CopyFile(from, to, 0o600)
	default:
		err = unix.Mknod(to, unix.S_IFCHR, 0)
	}
	if err == nil && os.Geteuid() == 0 {
		err = os.Lchown(to, e.User, e.Group)
	}
	if err != nil || e.Kind == symlink {
		return err
	}
	for name, value := range e.Attributes {
		if err := unix.Lsetxattr(to, name, value, 0); err != nil {
			return &fs.PathError{Op: "lsetxattr " + name, Path: to, Err: err}
		}
	}
	info, err := d.Info()
	if err != nil {
		return err
	}
	// Permissions are set after the owner, since changing it clears setuid.
	return errors.Join(os.Chmod(to, permissions(e, true)), os.Chtimes(to, info.ModTime(), info.ModTime()))
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
