// SPDX-License-Identifier: Apache-2.0

// Package storedir is a folder that several processes use: one at a time changes
// shared files, and unfinished files are in a separate folder, from which those of
// exited processes are removed.
package storedir

import (
	"errors"
	"os"
	"path/filepath"

	"k8s.io/klog/v2"

	"github.com/capstan-dev/capstan/internal/kit/filetree"
	"github.com/capstan-dev/capstan/internal/kit/lockfile"
)

// Dir is such a folder, by its absolute path.
type Dir string

const (
	lockFile = "lock"
	tmpDir   = "tmp"
)

// Open creates a folder, and some below it, unless they exist. Only its owner can
// enter it.
func Open(dir string, below ...string) (Dir, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for _, d := range append([]string{"", tmpDir}, below...) {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			return "", err
		}
	}
	return Dir(dir), nil
}

// Join returns a path below the folder.
func (d Dir) Join(names ...string) string {
	return filepath.Join(append([]string{string(d)}, names...)...)
}

// Locked runs f while no other process or goroutine runs another f for this folder.
func (d Dir) Locked(f func() error) (err error) {
	lock, err := lockfile.Lock(d.Join(lockFile))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lockfile.Unlock(lock)) }()
	return f()
}

// Temp creates a folder for files that are not finished yet, or no longer used. It
// locks the folder for this process, and removes those of exited processes. done
// removes it.
func (d Dir) Temp() (dir string, done func(), err error) {
	var f *os.File
	err = d.Locked(func() error { // a sweep must not see it before it is locked
		if err := d.sweep(); err != nil {
			return err
		}
		if dir, err = os.MkdirTemp(d.Join(tmpDir), ""); err != nil {
			return err
		}
		if f, err = os.Open(dir); err != nil {
			return err
		}
		return lockfile.Try(f)
	})
	if err != nil {
		return "", nil, err
	}
	return dir, func() {
		_ = filetree.Remove(dir) // the next call removes the rest
		_ = lockfile.Unlock(f)   // it was only locked
	}, nil
}

// sweep removes the folders of exited processes.
func (d Dir) sweep() error {
	entries, err := os.ReadDir(d.Join(tmpDir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		dir := d.Join(tmpDir, e.Name())
		f, err := os.Open(dir)
		if err != nil {
			continue // its owner has just removed it
		}
		if lockfile.Try(f) == nil {
			if err := filetree.Remove(dir); err != nil { // the store works without that
				klog.ErrorS(err, "Leaving files of a process that has ended: remove them by hand", "path", dir)
			}
		}
		if err := lockfile.Unlock(f); err != nil {
			return err
		}
	}
	return nil
}

// Publish moves a finished folder to its place, unless something exists there. It
// syncs the file system first: an unfinished folder must not look complete after a
// power failure.
func (d Dir) Publish(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	if err := errors.Join(syncFiles(f.Fd()), f.Close()); err != nil {
		return err
	}
	return d.Locked(func() error {
		if _, err := os.Lstat(to); err == nil {
			return nil
		}
		return os.Rename(from, to)
	})
}
