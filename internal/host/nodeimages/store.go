// SPDX-License-Identifier: Apache-2.0

package nodeimages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/blang/semver/v4"

	"github.com/capstan-dev/capstan/internal/host/ociimages/layers"
	"github.com/capstan-dev/capstan/internal/host/storedir"
	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
	"github.com/capstan-dev/capstan/internal/kit/diskspace"
	"github.com/capstan-dev/capstan/internal/kit/filetree"
)

// Store stores the images of a host in a folder. Several processes may use it at
// the same time.
type Store struct{ dir storedir.Dir }

// The folders of a Store.
const (
	imagesDir = "images" // by the digits of their IDs
	cacheDir  = "cache"  // the results of build steps
)

// Open returns the store of a folder, which is created if it does not exist. Only
// its owner can enter it: images contain programs with the setuid bit.
func Open(dir string) (*Store, error) {
	d, err := storedir.Open(dir, imagesDir)
	if err != nil {
		return nil, fmt.Errorf("open the store of node images: %w", err)
	}
	return &Store{dir: d}, nil
}

// Dir is the folder of the store.
func (s *Store) Dir() string { return string(s.dir) }

// MissingError means that a store has no such image.
type MissingError struct {
	Wanted, Dir string
	Versions    []string // of the existing images, newest first
}

func (e *MissingError) Error() string {
	build := "capstan image build --kubernetes-version VERSION"
	if _, err := parseVersion(e.Wanted); err == nil {
		build = "capstan image build --kubernetes-version " + e.Wanted
	}
	have, or := "which has none", ""
	if len(e.Versions) > 0 {
		have, or = "which has "+strings.Join(e.Versions, ", "), ", or ask for a version that is there"
	}
	return fmt.Sprintf("no node image %s in %s, %s: make one with %q, or bring one with \"capstan image import\"%s", e.Wanted, e.Dir, have, build, or)
}

// DamagedError means that an image cannot be used.
type DamagedError struct {
	Dir   string
	Cause error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("node image %s is damaged: %v: remove it with \"capstan image remove\" and build or import it again", filepath.Base(e.Dir), e.Cause)
}

// Unwrap returns the cause.
func (e *DamagedError) Unwrap() error { return e.Cause }

// InUseError means that an image cannot be removed because machines use it.
type InUseError struct {
	ID    string
	Users []string
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("node image %s is in use by %s: delete these machines first", e.ID, strings.Join(e.Users, ", "))
}

// List returns the images in the order of their versions, newest first. Damaged
// images are only in the error, and the list is valid nevertheless.
func (s *Store) List() ([]Image, error) {
	entries, err := os.ReadDir(s.dir.Join(imagesDir))
	if err != nil {
		return nil, fmt.Errorf("list node images: %w", err)
	}
	var found []Image
	var errs []error
	for _, e := range entries {
		i, err := s.loadNamed(e.Name())
		if err != nil {
			errs = append(errs, err)
			continue
		}
		found = append(found, i)
	}
	slices.SortFunc(found, func(a, b Image) int {
		return cmp.Or(compareVersions(b.Version, a.Version), strings.Compare(a.ID, b.ID))
	})
	return found, errors.Join(errs...)
}

// loadNamed reads the image in a folder of a given name.
func (s *Store) loadNamed(name string) (Image, error) {
	dir := s.dir.Join(imagesDir, name)
	i, err := s.load(dir)
	if err == nil && i.ID != "sha256:"+name {
		err = fmt.Errorf("%s has digest %s", manifestFile, i.ID)
	}
	if err != nil {
		return Image{}, &DamagedError{Dir: dir, Cause: err}
	}
	return i, nil
}

// Find returns the image for a version of Kubernetes ("v1.36.3", or without the v),
// or for an ID, of which the first digits suffice. If a version has several images,
// it returns the newest. If there is none, the error is a MissingError.
func (s *Store) Find(wanted string) (Image, error) {
	all, listed := s.List()
	var found []Image
	for _, i := range all {
		if i.named(wanted) {
			found = append(found, i)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1 && filetree.DigestDigits(wanted) != "":
		return Image{}, fmt.Errorf("node image %s: %d images begin so: give more digits", wanted, len(found))
	case len(found) > 1:
		return newest(found)
	}
	missing := &MissingError{Wanted: wanted, Dir: s.Dir()}
	for _, i := range all {
		missing.Versions = append(missing.Versions, i.Version)
	}
	missing.Versions = slices.Compact(missing.Versions) // all are in order
	return Image{}, errors.Join(missing, listed)
}

func (i Image) named(wanted string) bool {
	digits := filetree.DigestDigits(wanted)
	return "v"+strings.TrimPrefix(wanted, "v") == i.Version || digits != "" && strings.HasPrefix(i.ID, "sha256:"+digits)
}

// newest returns the image that was added last.
func newest(images []Image) (Image, error) {
	var last Image
	var at int64
	for _, i := range images {
		info, err := os.Stat(filepath.Join(i.dir, manifestFile))
		if err != nil {
			return Image{}, err
		}
		if t := info.ModTime().UnixNano(); last.ID == "" || t > at {
			last, at = i, t
		}
	}
	return last, nil
}

// Use records that a user, identified by any name, needs the image: it cannot be
// removed until the user releases it. Repeated calls have no effect.
func (i Image) Use(user string) error {
	if err := checkUser(user); err != nil {
		return err
	}
	return i.store.dir.Locked(func() error {
		if _, err := os.Stat(filepath.Join(i.dir, manifestFile)); err != nil {
			return &MissingError{Wanted: i.ID, Dir: i.store.Dir()}
		}
		if err := os.MkdirAll(filepath.Join(i.dir, usersDir), 0o700); err != nil {
			return fmt.Errorf("use node image %s: %w", i.ID, err)
		}
		f, err := os.OpenFile(filepath.Join(i.dir, usersDir, user), os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			return fmt.Errorf("use node image %s: %w", i.ID, err)
		}
		return errors.Join(f.Sync(), f.Close())
	})
}

// Release reverts Use. It succeeds if there was none.
func (i Image) Release(user string) error {
	if err := checkUser(user); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(i.dir, usersDir, user)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("release node image %s: %w", i.ID, err)
	}
	return nil
}

// Users returns the users of the image, sorted.
func (i Image) Users() ([]string, error) { return users(i.dir) }

func users(dir string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(dir, usersDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// user matches names that can be file names.
var user = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,254}$`) })

func checkUser(name string) error {
	if !user().MatchString(name) {
		return fmt.Errorf("user %q of a node image: use up to 255 letters, digits, '-', '_' and '.'", name)
	}
	return nil
}

// Remove removes an image, by version or ID; a damaged one only by its ID. An image
// in use is kept, and the error is an InUseError. The results of its build steps
// remain in the cache.
func (s *Store) Remove(ctx context.Context, wanted string) error {
	dir, err := s.folderOf(wanted)
	if err != nil {
		return err
	}
	trash, done, err := s.dir.Temp()
	if err != nil {
		return err
	}
	defer done()
	err = s.dir.Locked(func() error {
		names, err := users(dir)
		if err != nil {
			return err
		}
		if len(names) > 0 {
			return &InUseError{filepath.Base(dir), names}
		}
		return os.Rename(dir, filepath.Join(trash, "image"))
	})
	if err != nil {
		return fmt.Errorf("remove node image %s: %w", wanted, err)
	}
	return ctx.Err()
}

// folderOf returns the folder of an image, which may be damaged.
func (s *Store) folderOf(wanted string) (string, error) {
	i, err := s.Find(wanted)
	if err == nil {
		return i.dir, nil
	}
	digits := filetree.DigestDigits(wanted)
	if digits == "" {
		return "", err
	}
	found, globbed := filepath.Glob(s.dir.Join(imagesDir, digits+"*"))
	if globbed != nil || len(found) != 1 {
		return "", err
	}
	return found[0], nil
}

// publish turns a folder with the three trees into an image: it writes the manifest
// and moves the folder to its place. If the manifest has digests, the trees must match
// them. It succeeds if an image of the same ID exists.
func (s *Store) publish(ctx context.Context, dir string, m manifest) (Image, error) {
	want := m.Trees
	m.Trees = map[string]string{}
	for _, name := range []string{nodeTree, rootTree, varTree} {
		digest, err := layers.Digest(ctx, filepath.Join(dir, name))
		if err != nil {
			return Image{}, err
		}
		if m.Trees[name] = digest; want != nil && digest != want[name] {
			remedy := "fetch the archive again"
			if os.Geteuid() != 0 {
				remedy = "only root can import it, as its files have many owners"
			}
			return Image{}, fmt.Errorf("folder %s has digest %s, and its manifest says %s: %s", name, digest, want[name], remedy)
		}
	}
	id, text, err := m.identity()
	if err != nil {
		return Image{}, err
	}
	if err := atomicfile.Write(filepath.Join(dir, manifestFile), text); err != nil {
		return Image{}, err
	}
	place := s.dir.Join(imagesDir, strings.TrimPrefix(id, "sha256:"))
	if err := s.dir.Publish(dir, place); err != nil {
		return Image{}, err
	}
	return s.loadNamed(filepath.Base(place))
}

// full adds a remedy to an error that means that the disk is full.
func (s *Store) full(err error) error {
	return diskspace.Explain(err, string(s.dir), "where an image takes about 1 GiB, such as by \"capstan image remove --cache\" or by removing images that no machine uses")
}

// parseVersion parses a full version of Kubernetes.
func parseVersion(v string) (semver.Version, error) {
	parsed, err := semver.Parse(strings.TrimPrefix(v, "v"))
	if err != nil || !strings.HasPrefix(v, "v") {
		return semver.Version{}, fmt.Errorf("%q is no version of Kubernetes: write it as v1.36.3", v)
	}
	return parsed, nil
}

func compareVersions(a, b string) int {
	x, _ := parseVersion(a)
	y, _ := parseVersion(b)
	return x.Compare(y)
}
