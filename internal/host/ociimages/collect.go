// SPDX-License-Identifier: Apache-2.0

package ociimages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/capstan-dev/capstan/internal/kit/lockfile"
	"github.com/capstan-dev/capstan/internal/kit/registry"
)

// CollectOptions configure Collect. The zero value removes only what belongs to no
// image.
type CollectOptions struct {
	// Keep returns true for images that are needed, in use or not; nil is none.
	Keep func(Image) bool
	// UnusedFor is the time after which an image that is neither needed nor in use is
	// removed; 0 is never.
	UnusedFor time.Duration
	// MaxBytes is the size limit of all images, each layer counted once; beyond it,
	// the least recently used images are removed. 0 is no limit.
	MaxBytes int64
}

// partsKept is how long a partially fetched layer is kept to be resumed.
const partsKept = 24 * time.Hour

// Collect removes images that are not needed, and what belongs to no image. It
// returns the removed images.
func (s *Store) Collect(ctx context.Context, o CollectOptions) (gone []Image, err error) {
	if o.Keep == nil {
		o.Keep = func(Image) bool { return false }
	}
	err = s.change(func(i *index) error {
		byUse := slices.Clone(i.Images)
		slices.SortStableFunc(byUse, func(a, b Image) int { return a.Used.Compare(b.Used) })
		for _, m := range byUse {
			old := o.UnusedFor > 0 && s.now().Sub(m.Used) > o.UnusedFor
			if !old && (o.MaxBytes == 0 || s.bytes(i.Images) <= o.MaxBytes) || o.Keep(m) {
				continue
			}
			used, err := s.inUse(m.Digest)
			if err != nil {
				return err
			}
			if !used {
				gone = append(gone, m)
				i.Images = slices.DeleteFunc(i.Images, func(have Image) bool { return have.Digest == m.Digest })
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("collect images: %w", err)
	}
	if err := s.sweep(ctx); err != nil {
		return gone, fmt.Errorf("collect images: %w", err)
	}
	return gone, nil
}

// bytes returns the size of images, each layer counted once.
func (s *Store) bytes(images []Image) (sum int64) {
	seen := map[string]bool{}
	for _, m := range images {
		for _, layer := range m.Layers {
			if !seen[layer] {
				seen[layer] = true
				n, _ := s.sizeOf(layer)
				sum += n
			}
		}
	}
	return sum
}

// Bytes returns the size of all images of the store, each layer counted once.
func (s *Store) Bytes() (int64, error) {
	i, err := s.load()
	return s.bytes(i.Images), err
}

// Remove removes an image by a name or digest: by a digest with all its names; by a
// name only that name, and the image with its last name. An image in use is kept,
// and the error is an InUseError.
func (s *Store) Remove(ctx context.Context, wanted string) error {
	err := s.change(func(i *index) error {
		n, err := i.find(wanted)
		if err != nil {
			return err
		}
		if n < 0 {
			return &MissingError{wanted, s.Dir()}
		}
		m := &i.Images[n]
		if name, err := registry.Name(wanted); err == nil && len(m.Names) > 1 && slices.Contains(m.Names, name) {
			m.Names = slices.DeleteFunc(m.Names, func(have string) bool { return have == name })
			return nil
		}
		used, err := s.inUse(m.Digest)
		if err != nil {
			return err
		}
		if used {
			users, err := s.Users(m.Digest)
			return errors.Join(&InUseError{m.Digest, users}, err)
		}
		i.Images = slices.Delete(i.Images, n, n+1)
		return nil
	})
	if err == nil {
		err = s.sweep(ctx)
	}
	if err != nil {
		return fmt.Errorf("remove image %s: %w", wanted, err)
	}
	return nil
}

// sweep removes root folders and layers of no image. While an image is being
// fetched, layers are kept until the next time: some may belong to it.
func (s *Store) sweep(ctx context.Context) error {
	tmp, done, err := s.dir.Temp()
	if err != nil {
		return err
	}
	defer done()
	return s.dir.Locked(func() (err error) {
		i, err := s.load()
		if err != nil {
			return err
		}
		roots, used := map[string]bool{}, map[string]bool{}
		for _, m := range i.Images {
			roots[hexOf(m.Digest)] = true
			for _, layer := range m.Layers {
				used[hexOf(layer)] = true
			}
		}
		f, err := os.OpenFile(s.dir.Join(layersLock), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, lockfile.Unlock(f)) }()
		if err := lockfile.Try(f); errors.Is(err, lockfile.ErrHeld) {
			return nil
		} else if err != nil {
			return err
		}
		return errors.Join(
			s.drop(ctx, tmp, rootsDir, func(e os.DirEntry) (bool, error) {
				if roots[e.Name()] {
					return false, nil
				}
				used, err := s.inUse(e.Name())
				return !used, err
			}),
			s.drop(ctx, tmp, layersDir, func(e os.DirEntry) (bool, error) { return !used[e.Name()], nil }),
			s.drop(ctx, tmp, partsDir, func(e os.DirEntry) (bool, error) {
				info, err := e.Info()
				return err == nil && s.now().Sub(info.ModTime()) > partsKept, err
			}),
		)
	})
}

// drop moves old folders into tmp, where they cannot be found and are removed
// later.
func (s *Store) drop(ctx context.Context, tmp, below string, old func(os.DirEntry) (bool, error)) error {
	entries, err := os.ReadDir(s.dir.Join(below))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		goes, err := old(e)
		if err != nil {
			return err
		}
		if !goes {
			continue
		}
		if err := os.Rename(s.dir.Join(below, e.Name()), filepath.Join(tmp, below+"-"+e.Name())); err != nil {
			return err
		}
	}
	return nil
}
