// SPDX-License-Identifier: Apache-2.0

package ociimages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/capstan-dev/capstan/internal/host/ociimages/layers"
	"github.com/capstan-dev/capstan/internal/kit/lockfile"
)

// Root returns the root folder of an image, which users must not write to: its
// files are shared with other images. The image is kept until release is called or
// this process exits.
func (s *Store) Root(digest string) (dir string, release func(), err error) {
	var held *os.File
	dir = s.RootDir(digest)
	err = s.change(func(i *index) error { // it is removed under this lock, too
		if err := i.used(s, digest); err != nil {
			return err
		}
		if held, err = os.Open(dir); err != nil {
			return fmt.Errorf("image %s is damaged: %w: remove it with \"capstan image remove\", and fetch it again", digest, err)
		}
		return lockfile.TryShared(held)
	})
	if err != nil {
		if held != nil {
			_ = lockfile.Unlock(held) // it was only locked
		}
		return "", nil, err
	}
	var once sync.Once
	return dir, func() {
		once.Do(func() {
			_ = lockfile.Unlock(held) // it was only locked
			// The time without use starts now. If that cannot be recorded, it starts when
			// the root was requested.
			_ = s.change(func(i *index) error { return i.used(s, digest) })
		})
	}, nil
}

// used records that an image is used now.
func (i *index) used(s *Store, digest string) error {
	m := i.of(digest)
	if m == nil {
		return &MissingError{digest, s.Dir()}
	}
	m.Used = s.now()
	return nil
}

// of returns the image of a digest, or nil.
func (i *index) of(digest string) *Image {
	n := slices.IndexFunc(i.Images, func(m Image) bool { return m.Digest == digest })
	if n < 0 {
		return nil
	}
	return &i.Images[n]
}

// InUse reports whether an image has users, or its root folder is in use.
func (s *Store) InUse(digest string) (used bool, err error) {
	err = s.dir.Locked(func() error {
		used, err = s.inUse(digest)
		return err
	})
	return used, err
}

// inUse is InUse. The caller must hold the store's lock.
func (s *Store) inUse(digest string) (bool, error) {
	unused, err := free(s.RootDir(digest))
	users, listed := s.Users(digest)
	return !unused || len(users) > 0, errors.Join(err, listed)
}

// free reports whether a root folder is not in use. The caller must hold the
// store's lock.
func free(dir string) (bool, error) {
	f, err := os.Open(dir)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	err = lockfile.Try(f)
	busy := errors.Is(err, lockfile.ErrHeld)
	if busy {
		err = nil
	}
	return !busy, errors.Join(err, lockfile.Unlock(f))
}

// compose creates the root folder of an image whose layers exist, unless the root
// folder exists.
func (s *Store) compose(ctx context.Context, m Image) error {
	place := s.RootDir(m.Digest)
	if _, err := os.Lstat(place); err == nil {
		return nil
	}
	tmp, done, err := s.dir.Temp()
	if err != nil {
		return err
	}
	defer done()
	var unpacked []string
	for _, digest := range m.Layers {
		unpacked = append(unpacked, s.layerOf(digest))
	}
	root := filepath.Join(tmp, "root")
	if err := os.Mkdir(root, 0o700); err != nil {
		return err
	}
	if err := layers.Compose(ctx, unpacked, root); err != nil {
		return fmt.Errorf("put the layers together: %w", err)
	}
	return s.dir.Publish(root, place)
}
