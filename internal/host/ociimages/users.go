// SPDX-License-Identifier: Apache-2.0

package ociimages

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/capstan-dev/capstan/internal/host/ociimages/layers"
)

// Use records that a user, identified by the name of a file, needs an image: it cannot
// be removed until the user releases it, whichever processes exit. Users have files of
// their own: they and the root folders that they need stay if the list of images is
// lost. Repeated calls have no effect.
func (s *Store) Use(digest, user string) error {
	file := s.userOf(digest, user)
	return s.change(func(i *index) error {
		if err := i.used(s, digest); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return err
		}
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			return fmt.Errorf("use image %s: %w", digest, err)
		}
		return errors.Join(f.Sync(), f.Close())
	})
}

// Release reverts Use. It succeeds if there was none.
func (s *Store) Release(digest, user string) error {
	file := s.userOf(digest, user)
	return s.dir.Locked(func() error {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("release image %s: %w", digest, err)
		}
		_ = os.Remove(filepath.Dir(file)) // it is kept while it has other users
		return nil
	})
}

// Users returns the users of an image that Use has recorded, sorted.
func (s *Store) Users(digest string) (names []string, err error) {
	entries, err := os.ReadDir(s.dir.Join(usersDir, hexOf(digest)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

func (s *Store) userOf(digest, user string) string {
	return s.dir.Join(usersDir, hexOf(digest), filepath.Base(user))
}

// Files returns the files of a layer: the paths of their contents, by their names in it.
func (s *Store) Files(layer string) (map[string]string, error) {
	return layers.Files(s.layerOf(layer))
}

// Discard removes a file or folder on the store's file system, unless needed returns
// true, during which no other process changes the store. Its name goes first: an
// interrupted call leaves no part of it there.
func (s *Store) Discard(path string, needed func() (bool, error)) error {
	tmp, done, err := s.dir.Temp()
	if err != nil {
		return err
	}
	defer done()
	return s.dir.Locked(func() error {
		if stays, err := needed(); stays || err != nil {
			return err
		}
		return os.Rename(path, filepath.Join(tmp, "discarded"))
	})
}
