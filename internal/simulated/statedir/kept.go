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
	ids, err := identities(path)
	if err != nil {
		return nil, err
	}
	var out []Kept
	for _, id := range ids {
		k := Kept{ID: id, Path: filepath.Join(path, id)}
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
	ids, err := identities(path)
	for _, id := range ids {
		if !isHeld(filepath.Join(path, id, lockFile)) {
			idle++
		}
	}
	return len(ids), idle, err
}

// identities are those that have stored state in a folder.
func identities(path string) (ids []string, err error) {
	entries, err := os.ReadDir(path)
	for _, e := range entries {
		if e.IsDir() && FileName(e.Name()) == e.Name() {
			ids = append(ids, e.Name())
		}
	}
	return ids, ignoreMissing(err)
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
