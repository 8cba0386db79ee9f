// SPDX-License-Identifier: Apache-2.0

package nodeimages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/internal/host/ociimages"
	"github.com/capstan-dev/capstan/internal/host/ociimages/layers"
	"github.com/capstan-dev/capstan/internal/pure/nodecomponents"
)

// Image is an image in a Store.
type Image struct {
	// ID is its digest: "sha256:" and 64 digits.
	ID string
	// Version is that of Kubernetes, such as v1.36.3.
	Version string
	// Architecture is as Go names it, such as amd64.
	Architecture string
	// Source is the origin of its parts: "release", "modules".
	Source string
	// Parts are the versions of its parts, by name.
	Parts map[string]string
	// Root is its root folder, read-only, in which Var is the template of /var.
	Root, Var string
	// Bytes is the size of its files, including those shared with other images.
	Bytes int64

	store   *Store
	record  ociimages.Image
	earlier string // the digits of its ID in an earlier version of Capstan
}

// An image has three layers, lowest first: the Debian, what turns it into a node, and
// the store of containerd.
const (
	nodeLayerAt = 1
	layerCount  = 3
)

// The labels of an image, whose names start with labels.
const (
	labels       = "dev.capstan.node."
	versionLabel = labels + "kubernetes-version"
	sourceLabel  = labels + "source"
	partLabel    = labels + "part."
	earlierLabel = labels + "earlier-id"
)

// nameOf returns the name of images of a version, by which imports recognize them.
func nameOf(version string) string { return names + version }

const names = "node.capstan.local/kubernetes:"

// optionsFor returns how an image is added.
func optionsFor(version, architecture, source string, parts map[string]string) ociimages.AddOptions {
	all := map[string]string{versionLabel: version, sourceLabel: source}
	for name, v := range parts {
		all[partLabel+name] = v
	}
	return ociimages.AddOptions{Architecture: architecture, Labels: all, Name: nameOf(version)}
}

// check refuses what is no node image.
func check(m ociimages.Image) error {
	version := m.Config.Labels[versionLabel]
	if version == "" || len(m.Layers) != layerCount {
		return fmt.Errorf("image %s is no node image: it has not the label %s and %d layers", m.Digest, versionLabel, layerCount)
	}
	_, err := nodecomponents.ParseVersion(version)
	return err
}

// imageOf returns the image of a record.
func (s *Store) imageOf(m ociimages.Image) Image {
	all := m.Config.Labels
	i := Image{
		ID: m.Digest, Version: all[versionLabel], Source: all[sourceLabel], Parts: map[string]string{}, Root: s.images.RootDir(m.Digest), Bytes: m.Size,
		store: s, record: m, earlier: all[earlierLabel],
	}
	_, i.Architecture, _ = strings.Cut(m.Platform, "/")
	for label, version := range all {
		if name, ok := strings.CutPrefix(label, partLabel); ok {
			i.Parts[name] = version
		}
	}
	i.Var = filepath.Join(i.Root, "var")
	return i
}

// Verify compares all files of the image with its ID. It reads all of them, which
// takes seconds.
func (i Image) Verify(ctx context.Context) error { return i.store.images.Verify(ctx, i.record) }

// Use records that a user, identified by any name, needs the image: it cannot be
// removed until the user releases it. Repeated calls have no effect.
func (i Image) Use(user string) error { return i.store.images.Use(i.ID, user) }

// Release reverts Use. It succeeds if there was none.
func (i Image) Release(user string) error {
	if err := i.store.images.Release(i.ID, user); err != nil || i.earlier == "" {
		return err
	}
	if err := os.Remove(i.store.earlierPath(i.earlier, earlierUsers, user)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Users returns the users of the image, sorted.
func (i Image) Users() ([]string, error) {
	now, err := i.store.images.Users(i.ID)
	before, earlier := i.store.earlierUsers(i.earlier)
	all := append(now, before...)
	slices.Sort(all)
	return slices.Compact(all), errors.Join(err, earlier)
}

// Node returns the files of the layer with the parts of a node: the paths of their
// contents, by their names in the image.
func (i Image) Node() (map[string]string, error) {
	return i.store.images.Files(i.record.Layers[nodeLayerAt])
}

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
