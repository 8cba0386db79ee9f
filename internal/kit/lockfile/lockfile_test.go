// SPDX-License-Identifier: Apache-2.0

package lockfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/kit/lockfile"
)

func lock(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := lockfile.Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestTryLockReturnsErrHeldWhileLocked(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	f := lock(t, path)
	if _, err := lockfile.TryLock(path); !errors.Is(err, lockfile.ErrHeld) {
		t.Errorf("got %v, want ErrHeld", err)
	}
	if err := lockfile.Unlock(f); err != nil {
		t.Fatal(err)
	}
	next, err := lockfile.TryLock(path)
	if err != nil {
		t.Fatalf("after it was unlocked: %v", err)
	}
	if err := lockfile.Unlock(next); err != nil {
		t.Error(err)
	}
}

func TestSharedLockExcludesOnlyExclusiveOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var files []*os.File
	for range 3 {
		f, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		files = append(files, f)
	}
	for _, f := range files[:2] {
		if err := errors.Join(lockfile.WaitShared(f), lockfile.TryShared(f)); err != nil {
			t.Fatal(err)
		}
	}
	if err := lockfile.Try(files[2]); !errors.Is(err, lockfile.ErrHeld) {
		t.Errorf("got %v, want ErrHeld", err)
	}
}

// TestUnlockReleasesSharedDescriptor: a process that is being started has the descriptor
// until it executes its program.
func TestUnlockReleasesSharedDescriptor(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	f := lock(t, path)
	another, err := unix.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(another) }()
	if err := lockfile.Unlock(f); err != nil {
		t.Fatal(err)
	}
	next, err := lockfile.TryLock(path)
	if err != nil {
		t.Fatalf("still locked: %v", err)
	}
	_ = next.Close()
}

func TestCurrentDetectsRemovedFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	f := lock(t, path)
	defer func() { _ = f.Close() }()
	if !lockfile.Current(f) {
		t.Error("got false for an existing file")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if lockfile.Current(f) {
		t.Error("got true for a removed file")
	}
	next := lock(t, path)
	defer func() { _ = next.Close() }()
	if lockfile.Current(f) {
		t.Error("got true for a replaced file")
	}
}
