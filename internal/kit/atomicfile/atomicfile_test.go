// SPDX-License-Identifier: Apache-2.0

package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

func TestAFileIsReplacedWholeAndIsItsOwnersAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	if err := os.WriteFile(name, []byte("a longer one that all users may read"), 0o644); err != nil {
		t.Fatal(err)
	}
	old, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Close() }() // only read
	if err := Write(name, []byte("short")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	info, serr := os.Stat(name)
	if err := errors.Join(err, serr); err != nil || string(text) != "short" || info.Mode().Perm() != 0o600 {
		t.Errorf("got %q, %v, %v", text, info.Mode(), err)
	}
	was, err := old.Stat()
	if err != nil || os.SameFile(was, info) {
		t.Errorf("who had it open sees another one: %v", err)
	}
	left(t, dir, "file")
}

func TestWhatFailsLeavesTheFileAsItWas(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder := filepath.Join(dir, "folder") // which no file replaces
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(folder, nil); err == nil {
		t.Error("a folder was replaced")
	}
	if err := Write(filepath.Join(dir, "none", "file"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in no folder: got %v", err)
	}
	left(t, dir, "folder")
}

// left sees that nothing else is in a folder.
func left(t *testing.T, dir, want string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != want {
		t.Errorf("in the folder are %v, %v", entries, err)
	}
}

func TestAProgramStartsWhileOthersAreWritten(t *testing.T) {
	t.Parallel()
	const programs = 8
	dir, errs := t.TempDir(), make(chan error)
	for n := range programs {
		go func() {
			name := filepath.Join(dir, string(rune('a'+n)))
			var all error
			for range 30 {
				all = errors.Join(all, WriteProgram(name, []byte("#!/bin/sh\n")), exec.CommandContext(t.Context(), name).Run(), os.Remove(name))
			}
			errs <- all
		}()
	}
	for range programs {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// TestOutputIsWrittenToWhatMustStay: a rename would take the place of a pipe, and of the
// file behind a descriptor.
func TestOutputIsWrittenToWhatMustStay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "open"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // only read
	was, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteOutput(fmt.Sprintf("/dev/fd/%d", f.Fd()), []byte("text")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(f.Name())
	info, serr := os.Stat(f.Name())
	if err := errors.Join(err, serr); err != nil || string(text) != "text" || !os.SameFile(was, info) {
		t.Errorf("got %q, another file: %t, %v", text, !os.SameFile(was, info), err)
	}
	if err := WriteOutput("/dev/full", []byte("text")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("to a full device: %v", err)
	}
	left(t, dir, "open")
	for name, want := range map[string]bool{"/dev/null": true, dir: true, f.Name(): false, filepath.Join(dir, "none"): false} {
		if got := Stays(name); got != want {
			t.Errorf("%s stays: %t", name, got)
		}
	}
	if err := WriteOutput(filepath.Join(dir, "open"), []byte("new")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(f.Name()); err != nil || os.SameFile(was, info) || info.Mode().Perm() != 0o600 {
		t.Errorf("a file is not replaced: %v, %v", info, err)
	}
}
