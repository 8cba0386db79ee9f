// SPDX-License-Identifier: Apache-2.0

package ociimages

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/capstan-dev/capstan/internal/host/storedir"
	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
	"github.com/capstan-dev/capstan/internal/kit/diskspace"
	"github.com/capstan-dev/capstan/internal/kit/filetree"
	"github.com/capstan-dev/capstan/internal/kit/registry"
)

// Options configure a Store. The zero value is valid.
type Options struct {
	// Registry configures requests to registries.
	Registry registry.Options
	// Platform is that of the images; zero is Linux on the processor of this program.
	Platform v1.Platform
	// Limits limit one image; zero is ten times the size of the images of providers.
	Limits Limits
	// Concurrent is how many layers of all images are unpacked at a time, and how many
	// of one image are fetched: a registry that hangs delays no other. 0 is 4.
	Concurrent int
	// Privileged is for images of machines, as in layers.Limits. Pods must not share a
	// store with them: root in a machine can write to files of its image.
	Privileged bool
	// Check returns an error for an image that the store must not have; nil is all.
	Check func(Image) error
	// Now returns the time at which images are added and used; nil is that of the
	// host.
	Now func() time.Time
}

// Limits limit the size of one image.
type Limits struct {
	Layers int
	// Files and Bytes are for each unpacked layer, Bytes also for all together.
	Files int
	Bytes int64
	// Compressed is how many bytes all layers may have as they are fetched.
	Compressed int64
}

// defaultLimits are ten times the size of the images of providers.
var defaultLimits = Limits{Layers: 256, Files: 200_000, Bytes: 8 << 30, Compressed: 4 << 30}

// Store stores images in a folder.
type Store struct {
	dir      storedir.Dir
	asked    registry.Options
	registry *registry.Client
	platform v1.Platform
	limits   Limits
	whole    bool // Options.Privileged
	check    func(Image) error
	tokens   chan struct{} // one for each layer that may be unpacked concurrently
	disk     func(dir string) (diskspace.Space, error)
	now      func() time.Time
}

// The names in a Store.
const (
	indexFile = "images.json"
	layersDir = "layers"
	rootsDir  = "roots"
	partsDir  = "parts"
	usersDir  = "users"
)

// Open returns the store of a folder, which is created if it does not exist. Only
// its owner can enter it.
func Open(dir string, o Options) (*Store, error) {
	d, err := storedir.Open(dir, layersDir, rootsDir, partsDir, usersDir)
	if err != nil {
		return nil, fmt.Errorf("open the store of images: %w", err)
	}
	client, err := registry.New(o.Registry)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: d, asked: o.Registry, registry: client, platform: o.Platform, limits: o.Limits, tokens: make(chan struct{}, cmp.Or(o.Concurrent, 4)), disk: diskspace.Of, now: o.Now, whole: o.Privileged, check: o.Check}
	if s.platform.Architecture == "" {
		s.platform = v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
	}
	if s.limits == (Limits{}) {
		s.limits = defaultLimits
	}
	if s.check == nil {
		s.check = func(Image) error { return nil }
	}
	if s.now == nil {
		s.now = time.Now
	}
	return s, nil
}

// Dir is the folder of the store.
func (s *Store) Dir() string { return string(s.dir) }

// Image is an image in a Store.
type Image struct {
	// Digest is that of its manifest: "sha256:" and 64 digits.
	Digest string `json:"digest"`
	// Names are the full names under which it was pulled or imported:
	// docker.io/library/busybox:1.36. There may be none, after its last name was moved
	// to another image.
	Names []string `json:"names"`
	// Platform is the platform on which it runs, such as linux/amd64.
	Platform string `json:"platform"`
	Config   Config `json:"config"`
	// Layers are the digests of its unpacked layers, lowest first.
	Layers []string `json:"layers"`
	// Imported is true if it is from a file: no registry may have it.
	Imported bool `json:"imported,omitempty"`
	// Size is the size of its files in bytes, including those shared with other
	// images.
	Size int64 `json:"size"`
	// Manifest and ConfigFile are the texts with its digests, and Root is the digest of its
	// root folder, all of privileged images.
	Manifest   []byte `json:"manifest,omitempty"`
	ConfigFile []byte `json:"configFile,omitempty"`
	Root       string `json:"root,omitempty"`
	// Added and Used are when it was added, and when its root was last requested or
	// released.
	Added time.Time `json:"added"`
	Used  time.Time `json:"used"`
}

// Config is how an image is run by default.
type Config struct {
	Entrypoint   []string          `json:"entrypoint,omitempty"`
	Cmd          []string          `json:"cmd,omitempty"`
	Env          []string          `json:"env,omitempty"`
	User         string            `json:"user,omitempty"` // as in the image: 65532:65532, or names
	WorkingDir   string            `json:"workingDir,omitempty"`
	StopSignal   string            `json:"stopSignal,omitempty"`
	Volumes      []string          `json:"volumes,omitempty"`
	ExposedPorts []string          `json:"exposedPorts,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
}

// MissingError means that a store has no such image.
type MissingError struct{ Wanted, Dir string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("no image %s in %s: fetch it with \"capstan image pull\", or bring it with \"capstan image import\"", e.Wanted, e.Dir)
}

// InUseError means that an image cannot be removed because it is in use.
type InUseError struct {
	Digest string
	Users  []string // that were recorded
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("image %s is in use by %s: delete them first", e.Digest, cmp.Or(strings.Join(e.Users, ", "), "Pods"))
}

// index is the list of images that a store records.
type index struct {
	Images []Image `json:"images"`
}

// load reads the index.
func (s *Store) load() (index, error) {
	text, err := os.ReadFile(s.dir.Join(indexFile))
	if errors.Is(err, fs.ErrNotExist) {
		return index{}, nil
	}
	var i index
	if err == nil {
		err = json.Unmarshal(text, &i)
	}
	if err != nil {
		return index{}, fmt.Errorf("read the list of images: %w: remove %s, and images are fetched again", err, s.dir.Join(indexFile))
	}
	return i, nil
}

// change changes the index while no other process does.
func (s *Store) change(f func(i *index) error) error {
	return s.dir.Locked(func() error {
		i, err := s.load()
		if err != nil {
			return err
		}
		if err := f(&i); err != nil {
			return err
		}
		text, err := json.MarshalIndent(i, "", "  ")
		if err != nil {
			return err
		}
		return atomicfile.Write(s.dir.Join(indexFile), text)
	})
}

// List returns all images, in the order of their names.
func (s *Store) List() ([]Image, error) {
	i, err := s.load()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(i.Images, func(a, b Image) int {
		return cmp.Or(slices.Compare(a.Names, b.Names), cmp.Compare(a.Digest, b.Digest))
	})
	return i.Images, nil
}

// Find returns an image by a name, which may be abbreviated, or by a digest, of
// which the first digits suffice. If there is none, the error is a MissingError.
func (s *Store) Find(wanted string) (Image, error) {
	i, err := s.load()
	if err != nil {
		return Image{}, err
	}
	n, err := i.find(wanted)
	switch {
	case err != nil:
		return Image{}, err
	case n < 0:
		return Image{}, &MissingError{wanted, s.Dir()}
	}
	return i.Images[n], nil
}

// find returns the index of an image, or -1.
func (i index) find(wanted string) (int, error) {
	if name, err := registry.Name(wanted); err == nil {
		if n := slices.IndexFunc(i.Images, func(m Image) bool { return slices.Contains(m.Names, name) }); n >= 0 {
			return n, nil
		}
	}
	digits := filetree.DigestDigits(wanted)
	if digits == "" {
		return -1, nil
	}
	found := -1
	for n, m := range i.Images {
		if strings.HasPrefix(m.Digest, "sha256:"+digits) {
			if found >= 0 {
				return -1, fmt.Errorf("image %s: several images begin so: give more digits", wanted)
			}
			found = n
		}
	}
	return found, nil
}

// put adds an image, under a further name or none. Each name belongs to one image.
func (s *Store) put(m Image, names ...string) (Image, error) {
	err := s.change(func(i *index) error {
		for n := range i.Images {
			i.Images[n].Names = slices.DeleteFunc(i.Images[n].Names, func(have string) bool { return slices.Contains(names, have) })
		}
		have := i.of(m.Digest)
		if have == nil {
			m.Added, m.Used = s.now(), s.now()
			i.Images = append(i.Images, m)
			have = &i.Images[len(i.Images)-1]
		}
		have.Imported = have.Imported || m.Imported
		all := append(have.Names, names...)
		slices.Sort(all)
		have.Names = slices.Compact(all)
		m = *have
		return nil
	})
	return m, err
}

// hexOf returns the part of a digest that is used as a file name.
func hexOf(digest string) string { return strings.TrimPrefix(digest, "sha256:") }

// RootDir is the root folder of an image, for users that Use has recorded.
func (s *Store) RootDir(digest string) string { return s.dir.Join(rootsDir, hexOf(digest)) }

func (s *Store) layerOf(digest string) string { return s.dir.Join(layersDir, hexOf(digest)) }

// layerInfo is written next to an unpacked layer: its presence means that the layer
// is complete.
type layerInfo struct {
	Bytes int64 `json:"bytes"`
}

const infoFile = "layer.json"

// sizeOf returns the size of an unpacked layer in bytes, and whether it exists.
func (s *Store) sizeOf(digest string) (int64, bool) {
	text, err := os.ReadFile(filepath.Join(s.layerOf(digest), infoFile))
	var i layerInfo
	if err != nil || json.Unmarshal(text, &i) != nil {
		return 0, false
	}
	return i.Bytes, true
}
