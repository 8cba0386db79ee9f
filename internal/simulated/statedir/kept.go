// SPDX-License-Identifier: Apache-2.0

package statedir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Kept describes the stored state of one identity, as read without holding it.
type Kept struct {
	ID     string // the name of its folder
	Path   string
	Held   bool   // by a running process
	Holder string // the process that holds it, or held it last and has not released it
	Bytes  int64  // on disk
}

// List returns the stored states in a folder, in the order of the identities. The
// folder need not exist.
func List(path string) ([]Kept, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	var out []Kept
	for _, e := range entries {
		if !e.IsDir() || FileName(e.Name()) != e.Name() {
			continue
		}
		k := Kept{ID: e.Name(), Path: filepath.Join(path, e.Name())}
		if lock, err := os.Open(filepath.Join(k.Path, lockFile)); err == nil {
			k.Holder = read(lock).Holder
			_ = lock.Close() // only read
			k.Held = isHeld(lock.Name())
		}
		err := filepath.WalkDir(k.Path, func(_ string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			info, err := e.Info()
			if err == nil {
				k.Bytes += info.Size()
			}
			return err
		})
		if err := ignoreMissing(err); err != nil { // an entry that is removed meanwhile is not an error
			return nil, err
		}
		out = append(out, k)
	}
	return out, nil
}

// Count returns how many identities have stored state in a folder, and how many of
// them no process holds.
func Count(path string) (all, idle int, err error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return 0, 0, ignoreMissing(err)
	}
	for _, e := range entries {
		if !e.IsDir() || FileName(e.Name()) != e.Name() {
			continue
		}
		all++
		if !isHeld(filepath.Join(path, e.Name(), lockFile)) {
			idle++
		}
	}
	return all, idle, nil
}

// Remove deletes the stored state of an identity, unless a process holds it or
// waits for it: then it returns a HeldError.
func Remove(path, id string) error {
	d := &Dir{Options: Options{Path: path, Holder: "the command that removes it"}}
	held, err := d.Take(id, false)
	if errors.Is(err, ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	if held.Wanted() {
		return errors.Join(&HeldError{"no process, but another one waits for it"}, held.Leave())
	}
	return held.Delete()
}
