// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// saving and restoring are patterns of the names under which files and folders are
// made beside the place that they are for.
const saving, restoring = ".capstan-backup-*", ".capstan-restore-*"

// hold has tidy leave a file or folder alone until it is closed, however the process
// ends.
func hold(f *os.File) error {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}

// tidy removes what processes have left in a folder that were killed: keys are in it.
func tidy(dir, pattern string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if ours, _ := filepath.Match(pattern, e.Name()); !ours || !e.IsDir() && !e.Type().IsRegular() {
			continue
		}
		if err := removeFree(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			errs = append(errs, fmt.Errorf("remove what was left of an interrupted one: %w", err))
		}
	}
	return errors.Join(errs...)
}

func removeFree(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case err == nil:
		err = os.RemoveAll(path)
	case errors.Is(err, unix.EWOULDBLOCK):
		err = nil // somebody is at work
	}
	return errors.Join(err, f.Close())
}
