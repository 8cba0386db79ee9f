// SPDX-License-Identifier: Apache-2.0

package nodeimages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/internal/host/nodeimages/buildcache"
	"github.com/capstan-dev/capstan/internal/host/ociimages"
	"github.com/capstan-dev/capstan/internal/kit/filetree"
	"github.com/capstan-dev/capstan/internal/pure/nodecomponents"
)

// Store stores the images of a host in a folder. Several processes may use it at
// the same time.
type Store struct{ images *ociimages.Store }

// cacheDir is the folder with the results of build steps.
const cacheDir = "cache"

// limits are ten times the size of current images.
var limits = ociimages.Limits{Layers: layerCount, Files: 200_000, Bytes: 10 << 30, Compressed: 10 << 30}

// Open returns the store of a folder, which is created if it does not exist. Only
// its owner can enter it: images contain programs with the setuid bit. Images of
// earlier versions of Capstan become images of the store.
func Open(ctx context.Context, dir string) (*Store, error) {
	images, err := ociimages.Open(dir, ociimages.Options{Privileged: true, Limits: limits, Check: check})
	if err != nil {
		return nil, err
	}
	s := &Store{images}
	return s, s.migrate(ctx)
}

// Images is the store as one of images, for imports.
func (s *Store) Images() *ociimages.Store { return s.images }

// Dir is the folder of the store.
func (s *Store) Dir() string { return s.images.Dir() }

// MissingError means that a store has no such image.
type MissingError struct {
	Wanted, Dir string
	Versions    []string // of the existing images, newest first
}

func (e *MissingError) Error() string {
	build := "capstan image build --kubernetes-version VERSION"
	if _, err := nodecomponents.ParseVersion(e.Wanted); err == nil {
		build = "capstan image build --kubernetes-version " + e.Wanted
	}
	have, or := "which has none", ""
	if len(e.Versions) > 0 {
		have, or = "which has "+strings.Join(e.Versions, ", "), ", or ask for a version that is there"
	}
	return fmt.Sprintf("no node image %s in %s, %s: make one with %q, or bring one with \"capstan image import\"%s", e.Wanted, e.Dir, have, build, or)
}

// List returns the images in the order of their versions, newest first. Damaged
// images are only in the error, and the list is valid nevertheless.
func (s *Store) List() ([]Image, error) {
	all, err := s.images.List()
	if err != nil {
		return nil, err
	}
	var found []Image
	var errs []error
	for _, m := range all {
		i := s.imageOf(m)
		if info, err := os.Lstat(i.Var); err != nil || !info.IsDir() {
			err = cmp.Or(err, errors.New("its /var is no folder"))
			errs = append(errs, &ociimages.DamagedError{Digest: m.Digest, Cause: err})
			continue
		}
		found = append(found, i)
	}
	slices.SortFunc(found, func(a, b Image) int {
		return cmp.Or(compareVersions(b.Version, a.Version), strings.Compare(a.ID, b.ID))
	})
	return found, errors.Join(errs...)
}

// Find returns the image for a version of Kubernetes ("v1.36.3", or without the v),
// or for an ID, of which the first digits suffice. If a version has several images,
// it returns the one that was added last. If there is none, the error is a
// MissingError.
func (s *Store) Find(wanted string) (Image, error) {
	all, listed := s.List()
	digits := filetree.DigestDigits(wanted)
	var found []Image
	for _, i := range all {
		if i.named(wanted, digits) {
			found = append(found, i)
		}
	}
	switch {
	case len(found) > 1 && digits != "":
		return Image{}, fmt.Errorf("node image %s: %d images begin so: give more digits", wanted, len(found))
	case len(found) > 0:
		return slices.MaxFunc(found, func(a, b Image) int { return a.record.Added.Compare(b.record.Added) }), nil
	}
	missing := &MissingError{Wanted: wanted, Dir: s.Dir()}
	for _, i := range all {
		missing.Versions = append(missing.Versions, i.Version)
	}
	missing.Versions = slices.Compact(missing.Versions) // all are in order
	return Image{}, errors.Join(missing, listed)
}

func (i Image) named(wanted, digits string) bool {
	return "v"+strings.TrimPrefix(wanted, "v") == i.Version || digits != "" && (strings.HasPrefix(i.ID, "sha256:"+digits) || strings.HasPrefix(i.earlier, digits))
}

// Remove removes an image, by version or ID; a damaged one only by its ID. An image
// in use is kept, and the error is an ociimages.InUseError. The results of its build
// steps remain in the cache.
func (s *Store) Remove(ctx context.Context, wanted string) error {
	i, err := s.Find(wanted)
	if errors.As(err, new(*MissingError)) {
		if damaged, found := s.images.Find(wanted); found == nil {
			i.ID, err = damaged.Digest, nil
		}
	}
	if err != nil {
		return err
	}
	if users, err := s.earlierUsers(i.earlier); err != nil || len(users) > 0 {
		return cmp.Or(err, error(&ociimages.InUseError{Digest: i.ID, Users: users}))
	}
	return s.images.Remove(ctx, i.ID)
}

// CacheSize returns how many bytes the results of build steps take on disk,
// including those that are shared with images.
func (s *Store) CacheSize() (int64, error) {
	used, err := filetree.Measure(s.cache(), math.MaxInt64)
	return used.Bytes, err
}

// ClearCache removes the results of build steps. If a build runs, the error is
// buildcache.ErrBusy.
func (s *Store) ClearCache() error { return buildcache.Clear(s.cache()) }

func (s *Store) cache() string { return filepath.Join(s.Dir(), cacheDir) }

func compareVersions(a, b string) int {
	x, _ := nodecomponents.ParseVersion(a)
	y, _ := nodecomponents.ParseVersion(b)
	return x.Compare(y)
}
