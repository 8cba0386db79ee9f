// SPDX-License-Identifier: Apache-2.0

package ociimages

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/capstan-dev/capstan/internal/host/ociimages/layers"
	"github.com/capstan-dev/capstan/internal/kit/filetree"
	"github.com/capstan-dev/capstan/internal/kit/lockfile"
)

// Folder is a folder of this host that becomes a layer of a privileged image.
type Folder struct {
	Dir  string // must not be changed
	Name string // where its content is in the image; "." is the root
}

// AddOptions describe an image that is added from folders.
type AddOptions struct {
	// Architecture is as Go names it.
	Architecture string
	Labels       map[string]string
	Name         string
}

// Add adds a privileged image whose layers are folders of this host, lowest first. Their
// files are linked, so on one file system the image takes no space in addition.
func (s *Store) Add(ctx context.Context, o AddOptions, folders ...Folder) (Image, error) {
	m, err := s.add(ctx, o, folders)
	if err != nil {
		return Image{}, fmt.Errorf("add image %s: %w", o.Name, err)
	}
	return m, nil
}

func (s *Store) add(ctx context.Context, o AddOptions, folders []Folder) (Image, error) {
	busy, err := s.holdLayers()
	if err != nil {
		return Image{}, err
	}
	defer func() { _ = lockfile.Unlock(busy) }() // it was only locked
	config := v1.ConfigFile{OS: "linux", Architecture: o.Architecture, RootFS: v1.RootFS{Type: "layers"}, Config: v1.Config{Labels: o.Labels}}
	manifest := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1}
	for _, f := range folders {
		layer, err := s.link(ctx, f)
		if err != nil {
			return Image{}, err
		}
		digest, err := v1.NewHash(layer.Digest)
		if err != nil {
			return Image{}, err
		}
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, digest)
		manifest.Layers = append(manifest.Layers, v1.Descriptor{MediaType: types.OCIUncompressedLayer, Digest: digest, Size: layer.Archive})
	}
	text, err := json.Marshal(config)
	if err != nil {
		return Image{}, err
	}
	manifest.Config = v1.Descriptor{MediaType: types.OCIConfigJSON, Size: int64(len(text))}
	if manifest.Config.Digest, err = v1.NewHash(filetree.Digest(text)); err != nil {
		return Image{}, err
	}
	raw, err := json.Marshal(manifest)
	if err != nil {
		return Image{}, err
	}
	m := s.recordOf(described{filetree.Digest(raw), &manifest, &config, raw, text})
	return s.finish(ctx, m, []string{o.Name})
}

// link makes a layer of a folder.
func (s *Store) link(ctx context.Context, f Folder) (layers.Layer, error) {
	tmp, done, err := s.dir.Temp()
	if err != nil {
		return layers.Layer{}, err
	}
	defer done()
	dir := filepath.Join(tmp, "layer")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return layers.Layer{}, err
	}
	l, err := layers.Link(ctx, f.Dir, f.Name, dir)
	if err != nil {
		return layers.Layer{}, err
	}
	return l, s.publish(dir, l)
}

// DamagedError means that the files of an image are not those of its digest.
type DamagedError struct {
	Digest string
	Cause  error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("image %s is damaged: %v: remove it with \"capstan image remove\", and build or import it again", e.Digest, e.Cause)
}

// Verify compares all files of a privileged image with its digest. It reads all of them,
// which takes seconds.
func (s *Store) Verify(ctx context.Context, m Image) error {
	err := s.verifyLayers(ctx, m)
	if err == nil {
		var have string
		if have, err = layers.Digest(ctx, s.RootDir(m.Digest)); err == nil && have != m.Root {
			err = fmt.Errorf("its root folder has digest %s, want %s", have, m.Root)
		}
	}
	if err != nil {
		return errors.Join(ctx.Err(), &DamagedError{m.Digest, err})
	}
	return nil
}

func (s *Store) verifyLayers(ctx context.Context, m Image) error {
	for _, want := range m.Layers {
		have, _, err := layers.Sum(ctx, s.layerOf(want))
		if err == nil && have != want {
			err = fmt.Errorf("a layer has digest %s, want %s", have, want)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Export writes a privileged image as an archive in the OCI layout, under a name. It
// fails if the files do not match the digest.
func (s *Store) Export(ctx context.Context, m Image, name string, w io.Writer) error {
	if err := s.Verify(ctx, m); err != nil {
		return err
	}
	manifest, err := v1.ParseManifest(bytes.NewReader(m.Manifest))
	if err != nil {
		return err
	}
	self := v1.Descriptor{MediaType: types.OCIManifestSchema1, Size: int64(len(m.Manifest)), Annotations: map[string]string{wholeName: name}}
	if self.Digest, err = v1.NewHash(m.Digest); err != nil {
		return err
	}
	index, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{self}})
	if err != nil {
		return err
	}
	out := tar.NewWriter(w)
	for _, f := range []struct {
		name string
		text []byte
	}{
		{"index.json", index}, {"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {blobOf(self.Digest), m.Manifest}, {blobOf(manifest.Config.Digest), m.ConfigFile},
	} {
		if err := writeHeader(out, f.name, int64(len(f.text))); err != nil {
			return err
		}
		if _, err := out.Write(f.text); err != nil {
			return err
		}
	}
	for n, layer := range manifest.Layers {
		if err := writeHeader(out, blobOf(layer.Digest), layer.Size); err != nil {
			return err
		}
		if err := layers.Pack(ctx, out, s.layerOf(m.Layers[n])); err != nil {
			return err
		}
	}
	return out.Close()
}

func writeHeader(out *tar.Writer, name string, size int64) error {
	return out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size, ModTime: time.Unix(0, 0)})
}

// blobOf returns where a layout has the content of a digest.
func blobOf(h v1.Hash) string { return path.Join("blobs", h.Algorithm, h.Hex) }
