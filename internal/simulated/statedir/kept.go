// SPDX-License-Identifier: Apache-2.0

package statedir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Kept is what is kept of one identity, as somebody sees it who holds nothing.
type Kept struct {
	ID     string // as its folder is called
	Path   string
	Held   bool   // by a process that runs
	Holder string // who holds it, or held it last and has not released it
	Bytes  int64  // on disk
}

// List tells what is kept in a folder, in the order of the identities. There need
// be no folder.
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
		if err := ignoreMissing(err); err != nil { // what goes meanwhile is not missed
			return nil, err
		}
		out = append(out, k)
	}
	return out, nil
}

// Count tells of how many identities something is kept in a folder, and how many
// of them nobody holds.
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

// Remove gives up what is kept of an identity, unless somebody holds it or waits
// for it: then it is a HeldError.
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
		return errors.Join(&HeldError{"nobody, but another process waits for it"}, held.Leave())
	}
	return held.Delete()
}
