// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Image is an image in an archive.
type Image struct {
	// Names are its names in the archive; there may be none.
	Names []string
	// Manifest is the digest of an image or an index.
	Manifest v1.Hash
}

// The annotations with which an index names its images. That of containerd has the
// whole name; that of the layout may be a tag alone.
const (
	wholeName = "io.containerd.image.name"
	refName   = "org.opencontainers.image.ref.name"
)

// Images lists the images in the archive.
func (a *Archive) Images() ([]Image, error) {
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
	var all []Image
	for _, s := range saved {
		h, err := a.make(s)
		if err != nil {
			return nil, err
		}
		all = append(all, Image{Names: s.RepoTags, Manifest: h})
	}
	return all, nil
}

// ofIndex collects the names of each image: an image with several names has several
// entries.
func ofIndex(index v1.IndexManifest) (all []Image) {
	for _, d := range index.Manifests {
		n := slices.IndexFunc(all, func(i Image) bool { return i.Manifest == d.Digest })
		if n < 0 {
			all = append(all, Image{Manifest: d.Digest})
			n = len(all) - 1
		}
		switch name := d.Annotations[refName]; {
		case d.Annotations[wholeName] != "":
			all[n].Names = append(all[n].Names, d.Annotations[wholeName])
		case strings.ContainsAny(name, "/:"):
			all[n].Names = append(all[n].Names, name)
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
func (a *Archive) make(s saved) (v1.Hash, error) {
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
	m := v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
		Config: v1.Descriptor{MediaType: types.OCIConfigJSON, Digest: hashOf(text), Size: int64(len(text))}, Layers: []v1.Descriptor{},
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
	h := hashOf(raw)
	a.made[h] = raw
	return h, nil
}

func hashOf(text []byte) v1.Hash {
	sum := sha256.Sum256(text)
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}
}
