// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/capstan-dev/capstan/internal/kit/lockfile"
)

// saving and restoring are patterns of the names of temporary files and
// directories, which are created next to their destination.
const saving, restoring = ".capstan-backup-*", ".capstan-restore-*"

// tidy removes what killed processes have left in a directory, because it contains
// keys. It leaves what a process has locked.
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
	switch err = lockfile.Try(f); {
	case err == nil:
		err = os.RemoveAll(path)
	case errors.Is(err, lockfile.ErrHeld):
		err = nil // another process uses it
	}
	return errors.Join(err, f.Close())
}
