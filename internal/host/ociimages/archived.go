// SPDX-License-Identifier: Apache-2.0

package ociimages

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// archived is an image in an archive.
type archived struct {
	// names are its names in the archive; there may be none.
	names []string
	// manifest is the digest of an image or an index.
	manifest v1.Hash
}

// The annotations with which an index names its images. That of containerd has the
// whole name; that of the layout may be a tag alone.
const (
	wholeName = "io.containerd.image.name"
	refName   = "org.opencontainers.image.ref.name"
)

// images lists the images in the archive.
func (a *archive) images() ([]archived, error) {
	var index v1.IndexManifest
	err := a.readJSON("index.json", &index)
	if err == nil {
		return ofIndex(index), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var saved []saved
	if err := a.readJSON("manifest.json", &saved); errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoImages
	} else if err != nil {
		return nil, err
	}
	var all []archived
	for _, s := range saved {
		h, err := a.make(s)
		if err != nil {
			return nil, err
		}
		all = append(all, archived{names: s.RepoTags, manifest: h})
	}
	return all, nil
}

// ofIndex collects the names of each image: an image with several names has several
// entries.
func ofIndex(index v1.IndexManifest) (all []archived) {
	for _, d := range index.Manifests {
		n := slices.IndexFunc(all, func(i archived) bool { return i.manifest == d.Digest })
		if n < 0 {
			all = append(all, archived{manifest: d.Digest})
			n = len(all) - 1
		}
		switch name := d.Annotations[refName]; {
		case d.Annotations[wholeName] != "":
			all[n].names = append(all[n].names, d.Annotations[wholeName])
		case strings.ContainsAny(name, "/:"):
			all[n].names = append(all[n].names, name)
		}
	}
	return all
}

// saved is an image in the list of docker save.
type saved struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// make creates a manifest for an image of docker save, which has none. Its layers
// are named by the digests of their uncompressed content, which are theirs if they
// are not compressed; reading them shows whether they are.
func (a *archive) make(s saved) (v1.Hash, error) {
	text, err := a.read(s.Config)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("read the configuration of an image: %w", err)
	}
	var config v1.ConfigFile
	if err := json.Unmarshal(text, &config); err != nil {
		return v1.Hash{}, fmt.Errorf("read %s: %w", s.Config, err)
	}
	if len(config.RootFS.DiffIDs) != len(s.Layers) {
		return v1.Hash{}, fmt.Errorf("read manifest.json: it lists %d layers of an image, whose configuration has %d", len(s.Layers), len(config.RootFS.DiffIDs))
	}
	digest, _, err := v1.SHA256(bytes.NewReader(text))
	if err != nil {
		return v1.Hash{}, err
	}
	m := v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
		Config: v1.Descriptor{MediaType: types.OCIConfigJSON, Digest: digest, Size: int64(len(text))}, Layers: []v1.Descriptor{},
	}
	a.docker[m.Config.Digest] = s.Config
	for n, diff := range config.RootFS.DiffIDs {
		r, size, err := a.open(s.Layers[n])
		if err != nil {
			return v1.Hash{}, fmt.Errorf("layer of an image: %w", err)
		}
		if err := r.Close(); err != nil {
			return v1.Hash{}, err
		}
		m.Layers = append(m.Layers, v1.Descriptor{MediaType: types.OCIUncompressedLayer, Digest: diff, Size: size})
		a.docker[diff] = s.Layers[n]
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return v1.Hash{}, err
	}
	h, _, err := v1.SHA256(bytes.NewReader(raw))
	a.made[h] = raw
	return h, err
}
