// SPDX-License-Identifier: Apache-2.0

// Package podvolumes manages the folders that are volumes of Pods. The files of a
// volume that follows objects change atomically: they are in a folder of their
// generation, to which a link points that is replaced by renaming, so that a
// container sees either the old or the new files and never a mixture.
package podvolumes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/capstan-dev/capstan/internal/kit/filetree"
	"github.com/capstan-dev/capstan/internal/pure/podspec"
)

const (
	// data is the link to the current generation, and temporary the one that is
	// renamed to it.
	data      = "..data"
	temporary = "..data_tmp"
)

// Store is the folder of all volumes.
type Store struct {
	dir string
	// Left is what could not be removed of an earlier process; nil if nothing.
	Left error
}

// Open creates the folder, accessible only to its user, and removes or moves away
// what an earlier process left in it: its Pods have ended with it.
func Open(dir string) (*Store, error) {
	s := &Store{dir, filetree.Discard(dir)}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder for volumes of Pods: %w", err)
	}
	return s, nil
}

// Path returns the path of a volume.
func (s *Store) Path(pod, volume string) string { return filepath.Join(s.dir, pod, volume) }

// Empty creates a volume to which containers of any user can write.
func (s *Store) Empty(pod, volume string) error {
	dir := s.Path(pod, volume)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make volume %s: %w", volume, err)
	}
	return os.Chmod(dir, 0o777) // regardless of the umask: only the plane's user can enter the folder above
}

// Write sets the files of a volume, if they differ.
func (s *Store) Write(pod, volume string, files []podspec.File) (err error) {
	dir := s.Path(pod, volume)
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, 0o755)); err != nil { // as above
		return fmt.Errorf("make volume %s: %w", volume, err)
	}
	if same(filepath.Join(dir, data), files) {
		return nil
	}
	generation, err := os.MkdirTemp(dir, "..generation-")
	if err != nil {
		return fmt.Errorf("write volume %s: %w", volume, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write volume %s: %w", volume, err), os.RemoveAll(generation))
		}
	}()
	for _, f := range files {
		if err := write(generation, f); err != nil {
			return err
		}
	}
	if err := filepath.WalkDir(generation, func(name string, e os.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		return os.Chmod(name, 0o755)
	}); err != nil {
		return err
	}
	old, _ := os.Readlink(filepath.Join(dir, data)) // "": there is none
	_ = os.Remove(filepath.Join(dir, temporary))    // left by an interrupted process
	if err := os.Symlink(filepath.Base(generation), filepath.Join(dir, temporary)); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(dir, temporary), filepath.Join(dir, data)); err != nil {
		return err
	}
	if err := link(dir, files); err != nil {
		return err
	}
	if old != "" {
		return os.RemoveAll(filepath.Join(dir, old))
	}
	return nil
}

func write(dir string, f podspec.File) error {
	name := filepath.Join(dir, f.Path)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(name, f.Data, 0o600); err != nil {
		return err
	}
	// Users of a Pod differ from those of the host, and no other user can enter the
	// folder above, so permissions of the owner are given to all.
	mode := os.FileMode(f.Mode)
	return os.Chmod(name, mode|mode>>3&0o070|mode>>6&0o007)
}

// link makes each name at the top of a volume point to the current generation, and
// removes names without a file.
func link(dir string, files []podspec.File) error {
	want := map[string]bool{}
	for _, f := range files {
		top, _, _ := strings.Cut(f.Path, "/")
		want[top] = true
	}
	there, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range there {
		switch name := e.Name(); {
		case want[name]:
			delete(want, name)
		case !strings.HasPrefix(name, ".."):
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	for name := range want {
		if err := os.Symlink(filepath.Join(data, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// same reports whether a generation has exactly these files.
func same(generation string, files []podspec.File) bool {
	root, err := filepath.EvalSymlinks(generation)
	if err != nil {
		return false
	}
	count := 0
	if filepath.WalkDir(root, func(_ string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			count++
		}
		return err
	}) != nil || count != len(files) {
		return false
	}
	for _, f := range files {
		if b, err := os.ReadFile(filepath.Join(root, f.Path)); err != nil || string(b) != string(f.Data) {
			return false
		}
	}
	return true
}

// Usage returns how much of the disk a volume uses, up to somewhat over a limit of
// bytes. An error means that its containers prevent a complete measurement.
func (s *Store) Usage(pod, volume string, limit int64) (filetree.Usage, error) {
	u, err := filetree.Measure(s.Path(pod, volume), limit)
	if err != nil {
		return u, fmt.Errorf("measure volume %s: %w", volume, err)
	}
	return u, nil
}

// Remove deletes all volumes of a Pod. An error lists what is left, under another
// name.
func (s *Store) Remove(pod string) error {
	if err := filetree.Discard(filepath.Join(s.dir, pod)); err != nil {
		return fmt.Errorf("delete the volumes of a Pod: %w", err)
	}
	return nil
}
