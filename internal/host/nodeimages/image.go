// SPDX-License-Identifier: Apache-2.0

package nodeimages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/capstan-dev/capstan/internal/host/ociimages/layers"
	"github.com/capstan-dev/capstan/internal/kit/filetree"
)

// Image is an image in a Store.
type Image struct {
	// ID is its content address: "sha256:" and 64 digits. Images of the same ID have
	// the same files.
	ID string
	// Version is that of Kubernetes, such as v1.36.3.
	Version string
	// Architecture is as Go names it, such as amd64.
	Architecture string
	// Source is the origin of its parts: "release", "modules".
	Source string
	// Parts are the versions of its parts, by name.
	Parts map[string]string
	// Root are its layers, read-only, topmost first.
	Root []string
	// Var is the template of /var for MakeVar.
	Var string

	dir   string
	store *Store
	trees map[string]string // digests of its folders, by name
}

// The folders of an image.
const (
	nodeTree = "node" // turns a Debian into a node
	rootTree = "root" // the Debian
	varTree  = "var"
)

// manifest describes an image. Its digest is the image's ID.
type manifest struct {
	Version      string            `json:"kubernetesVersion"`
	Architecture string            `json:"architecture"`
	Source       string            `json:"source"`
	Parts        map[string]string `json:"parts"`
	Trees        map[string]string `json:"trees"`
}

const (
	manifestFile = "image.json"
	usersDir     = "users"
	// maxManifest is far more than the few hundred bytes of a manifest.
	maxManifest = 1 << 20
)

// identity returns the ID of the image with this manifest.
func (m manifest) identity() (id string, text []byte, err error) {
	text, err = json.MarshalIndent(m, "", "  ")
	if err != nil {
		return "", nil, err
	}
	return filetree.Digest(text), text, nil
}

// readManifest reads a stored or imported manifest. It refuses one that differs
// from what this version of Capstan writes, since its digest would not be
// meaningful then.
func readManifest(text []byte) (manifest, error) {
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return m, err
	}
	id, _, err := m.identity()
	if err != nil {
		return m, err
	}
	if id != filetree.Digest(text) {
		return m, errors.New("it holds what this version of Capstan does not know")
	}
	if _, err := parseVersion(m.Version); err != nil {
		return m, err
	}
	for _, name := range []string{nodeTree, rootTree, varTree} {
		if !strings.HasPrefix(m.Trees[name], "sha256:") {
			return m, fmt.Errorf("it has no digest of %s", name)
		}
	}
	if len(m.Trees) != 3 {
		return m, errors.New("it names folders that images do not have")
	}
	return m, nil
}

// load reads the image of a folder, but not its layers.
func (s *Store) load(dir string) (Image, error) {
	text, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if err != nil {
		return Image{}, err
	}
	m, err := readManifest(text)
	if err != nil {
		return Image{}, fmt.Errorf("%s: %w", manifestFile, err)
	}
	i := Image{ID: filetree.Digest(text), Version: m.Version, Architecture: m.Architecture, Source: m.Source, Parts: m.Parts, dir: dir, store: s, trees: m.Trees}
	for _, name := range []string{nodeTree, rootTree, varTree} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || !info.IsDir() {
			return Image{}, fmt.Errorf("folder %s is not there", name)
		}
	}
	i.Root = []string{filepath.Join(dir, nodeTree), filepath.Join(dir, rootTree)}
	i.Var = filepath.Join(dir, varTree)
	return i, nil
}

// Verify compares all files of the image with its ID. It reads all of them, which
// takes seconds.
func (i Image) Verify(ctx context.Context) error {
	for _, name := range []string{nodeTree, rootTree, varTree} {
		digest, err := layers.Digest(ctx, filepath.Join(i.dir, name))
		if err != nil {
			return fmt.Errorf("verify image %s: %w", i.ID, err)
		}
		if digest != i.trees[name] {
			return &DamagedError{Dir: i.dir, Cause: fmt.Errorf("%s has digest %s, want %s", name, digest, i.trees[name])}
		}
	}
	return nil
}

// Size returns how many bytes it takes on disk. Files that it shares with other
// images or machines are counted in full.
func (i Image) Size() (int64, error) { return layers.Size(i.dir) }

// MakeVar creates the /var of a machine as a folder, which must not exist yet. The
// container images in it take no space, as they are hard links to the image's
// files; on another file system they are copied. After a failure, the caller must
// remove the folder.
func (i Image) MakeVar(dir string) error {
	return layers.Copy(context.Background(), i.Var, dir, sharedInVar)
}

// sharedInVar reports whether a file of /var is never written in place: contents
// that containerd stores under their digest, the files of its snapshots, which are
// lower layers of overlays, and the package manager's files for each package, which
// it replaces whole. Databases and logs are written in place.
func sharedInVar(path string) bool {
	below := func(dir string) bool { return strings.HasPrefix(path, dir+"/") }
	return below("lib/containerd") && !strings.HasSuffix(path, ".db") || below("lib/dpkg/info")
}
