// SPDX-License-Identifier: Apache-2.0

// Package storedir is a folder in which several processes keep things: one at a
// time changes what all rely on, and what is unfinished has a place of its own,
// which is emptied of what processes left that have died.
package storedir

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"github.com/capstan-dev/capstan/internal/kit/filetree"
)

// Dir is such a folder, by its absolute path.
type Dir string

const (
	lockFile = "lock"
	tmpDir   = "tmp"
)

// Open makes a folder, and some below it, unless they are there. Nobody but its
// owner can enter it.
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
	lock, err := Lock(d.Join(lockFile))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, Unlock(lock)) }()
	return f()
}

// Lock waits until a file is locked by nobody else, and locks it until Unlock.
// The file is made if it is not there.
func Lock(file string) (*os.File, error) {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for { // a signal interrupts it
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			if err != nil {
				return nil, errors.Join(err, f.Close())
			}
			return f, nil
		}
	}
}

// Unlock gives a lock back, and closes the file. Closed alone it would stay locked while a
// process is started, which has all descriptors until it runs its program.
func Unlock(f *os.File) error {
	return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
}

// Temp makes a folder for what is not finished yet, or no more. It is locked by this
// process, and what a process left that has died is removed. With done, it goes.
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
		return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	})
	if err != nil {
		return "", nil, err
	}
	return dir, func() {
		_ = filetree.Remove(dir) // what stays is swept by the next
		_ = Unlock(f)            // it was only locked
	}, nil
}

// sweep removes what processes left that have died.
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
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			if err := filetree.Remove(dir); err != nil { // the store works without that
				klog.ErrorS(err, "Leaving files of a process that has ended: remove them by hand", "path", dir)
			}
		}
		if err := Unlock(f); err != nil {
			return err
		}
	}
	return nil
}

// Publish moves what is finished to its place, unless something is there already.
// All of its file system is on disk before: what is unfinished must not look whole
// after a power cut.
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
