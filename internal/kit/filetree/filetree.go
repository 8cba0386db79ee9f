// SPDX-License-Identifier: Apache-2.0

// Package filetree measures and removes folders that programs without trust can write to.
// It goes by descriptors, so neither links nor the length of a path mislead it, and has one
// folder open at a time, so the depth of a tree does not matter.
package filetree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Usage is what a tree takes of its disk.
type Usage struct {
	// Bytes has each file once, at least FileBytes for it.
	Bytes int64
	// Files counts folders and links as well.
	Files int64
}

// FileBytes is what a file, folder or link counts at least: the smallest block of the
// usual file systems. So a limit of bytes is one of files, too.
const FileBytes = 4 << 10

// LeftoverError reports a tree that could not be removed.
type LeftoverError struct {
	Path string // where it is now
	Err  error
}

// Error implements error.
func (e *LeftoverError) Error() string {
	return fmt.Sprintf("%s cannot be removed: %v: remove it by hand", e.Path, e.Err)
}

// Unwrap returns the cause.
func (e *LeftoverError) Unwrap() error { return e.Err }

// leftover is between the name of a tree and the suffix that makes the name of its
// leftover unique.
const leftover = ".leftover-"

// Discard removes a tree, or moves it to another name in its folder, so that in any case
// its name is free. Leftovers of the same name are tried again. The error reports what is
// left; callers report it and continue.
func Discard(path string) error {
	dir, name := filepath.Split(filepath.Clean(path))
	entries, err := os.ReadDir(filepath.Clean(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var errs []error
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), name+leftover) {
			continue
		}
		left := filepath.Join(dir, e.Name())
		if err := Remove(left); err != nil {
			errs = append(errs, &LeftoverError{left, err})
		}
	}
	if err := Remove(path); err != nil {
		errs = append(errs, moveAway(path, err))
	}
	return errors.Join(errs...)
}

func moveAway(path string, cause error) error {
	if strings.Contains(filepath.Base(path), leftover) {
		return &LeftoverError{path, cause}
	}
	to, err := os.MkdirTemp(filepath.Dir(path), filepath.Base(path)+leftover)
	if err == nil { // the name is free then
		err = errors.Join(os.Remove(to), os.Rename(path, to))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return &LeftoverError{to, cause}
}
