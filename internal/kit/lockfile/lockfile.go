// SPDX-License-Identifier: Apache-2.0

// Package lockfile locks files and folders against other processes of this host, and
// against other openings of them in this process. The kernel releases a lock when its
// process ends, however it ends.
package lockfile

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ErrHeld means that another process, or another opening in this one, holds a lock.
var ErrHeld = errors.New("another process holds the lock")

// Lock opens a file, which it creates if it does not exist, and waits until it holds the
// lock of it.
func Lock(path string) (*os.File, error) { return open(path, Wait) }

// TryLock is like Lock, but returns ErrHeld instead of waiting.
func TryLock(path string) (*os.File, error) { return open(path, Try) }

func open(path string, hold func(*os.File) error) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := hold(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Wait waits until it holds the lock of an open file or folder.
func Wait(f *os.File) error { return flock(f, unix.LOCK_EX) }

// Try is like Wait, but returns ErrHeld instead of waiting.
func Try(f *os.File) error { return flock(f, unix.LOCK_EX|unix.LOCK_NB) }

// WaitShared is like Wait, for a lock that several can hold and that excludes the others.
func WaitShared(f *os.File) error { return flock(f, unix.LOCK_SH) }

// TryShared is like WaitShared, but returns ErrHeld instead of waiting.
func TryShared(f *os.File) error { return flock(f, unix.LOCK_SH|unix.LOCK_NB) }

func flock(f *os.File, how int) error {
	for { // a signal interrupts it
		switch err := unix.Flock(int(f.Fd()), how); {
		case err == nil:
			return nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return fmt.Errorf("lock %s: %w", f.Name(), ErrHeld)
		case !errors.Is(err, unix.EINTR):
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
}

// Unlock releases a lock, and closes the file. If it were only closed, it would stay
// locked while a process is being started, which has all descriptors until it executes
// its program.
func Unlock(f *os.File) error {
	return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
}

// Current reports whether a file or folder is still the one of its name. The previous
// holder of a lock may have removed it.
func Current(f *os.File) bool {
	have, err := f.Stat()
	if err != nil {
		return false
	}
	is, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(have, is)
}
