// SPDX-License-Identifier: Apache-2.0

package ociimages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/access/ociimages/layers"
	"github.com/capstan-dev/capstan/internal/access/storedir"
)

// Root returns the root folder of an image, which is read-only for whoever uses it:
// its files are those of other images, too. Until release is called, or this process
// ends, the image stays.
func (s *Store) Root(digest string) (dir string, release func(), err error) {
	var held *os.File
	dir = s.rootOf(digest)
	err = s.change(func(i *index) error { // who removes it does so locked, too
		if err := i.used(s, digest); err != nil {
			return err
		}
		if held, err = os.Open(dir); err != nil {
			return fmt.Errorf("image %s is damaged: %w: remove it with \"capstan image remove\", and fetch it again", digest, err)
		}
		return unix.Flock(int(held.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	})
	if err != nil {
		if held != nil {
			_ = storedir.Unlock(held) // it was only locked
		}
		return "", nil, err
	}
	var once sync.Once
	return dir, func() {
		once.Do(func() {
			_ = storedir.Unlock(held) // it was only locked
			// How long it is unused counts from now. If that cannot be noted, it counts
			// from when it was asked for.
			_ = s.change(func(i *index) error { return i.used(s, digest) })
		})
	}, nil
}

// used notes that an image is used now.
func (i *index) used(s *Store, digest string) error {
	n := slices.IndexFunc(i.Images, func(m Image) bool { return m.Digest == digest })
	if n < 0 {
		return &MissingError{digest, s.Dir()}
	}
	i.Images[n].Used = s.now()
	return nil
}

// InUse reports whether anybody uses the root folder of an image now.
func (s *Store) InUse(digest string) (used bool, err error) {
	err = s.dir.Locked(func() error {
		unused, err := free(s.rootOf(digest))
		used = !unused
		return err
	})
	return used, err
}

// free reports whether nobody uses a root folder. It is asked while the store is
// locked.
func free(dir string) (bool, error) {
	f, err := os.Open(dir)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	busy := errors.Is(err, unix.EWOULDBLOCK)
	if busy {
		err = nil
	}
	return !busy, errors.Join(err, storedir.Unlock(f))
}

// compose makes the root folder of an image whose layers are there, unless it is
// there.
func (s *Store) compose(ctx context.Context, m Image) error {
	place := s.rootOf(m.Digest)
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
	root := tmp + "/root"
	if err := os.Mkdir(root, 0o700); err != nil {
		return err
	}
	if err := layers.Compose(ctx, unpacked, root); err != nil {
		return fmt.Errorf("put the layers together: %w", err)
	}
	return s.dir.Publish(root, place)
}
