// SPDX-License-Identifier: Apache-2.0

package ociimages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/capstan-dev/capstan/internal/kit/filetree"
)

// PlatformError means that an image is not for the requested platform.
type PlatformError struct {
	Wanted string
	Have   []string
}

func (e *PlatformError) Error() string {
	return fmt.Sprintf("the image is for %[2]s, not for %[1]s: use one for that platform, or build it for that, too", e.Wanted, strings.Join(e.Have, ", "))
}

// source is the origin of an image.
type source interface {
	// Manifest returns the manifest of a digest.
	Manifest(ctx context.Context, h v1.Hash) ([]byte, error)
	// Config returns the configuration of an image.
	Config(ctx context.Context, d v1.Descriptor) ([]byte, error)
	// Layer opens a layer with its stored compression. It is closed when it was read,
	// and cannot be used afterwards.
	Layer(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error)
}

// maxNested is the limit of indexes in indexes: archives have one more than
// registries.
const maxNested = 4

// maxManifest is the limit of registries.
const maxManifest = 4 << 20

// described is the manifest of an image and its configuration, both verified with
// their digests.
type described struct {
	digest   string
	manifest *v1.Manifest
	config   *v1.ConfigFile
	// raw and text are the manifest and the configuration as they have the digests.
	raw, text []byte
}

// describe returns the image for a platform, given a manifest, which may be an
// index.
func describe(ctx context.Context, src source, raw []byte, p v1.Platform) (described, error) {
	for range maxNested {
		kind, err := kindOf(raw)
		if err != nil {
			return described{}, err
		}
		if kind == isImage {
			return describeImage(ctx, src, raw, p)
		}
		i, err := v1.ParseIndexManifest(bytes.NewReader(raw))
		if err != nil {
			return described{}, fmt.Errorf("read the index: %w", err)
		}
		d, err := choose(i, p)
		if err != nil {
			return described{}, err
		}
		if raw, err = src.Manifest(ctx, d.Digest); err != nil {
			return described{}, err
		}
		if err := compare("the manifest", raw, d.Digest); err != nil {
			return described{}, err
		}
	}
	return described{}, errors.New("its indexes lie too deep in each other")
}

const (
	isImage = "image"
	isIndex = "index"
)

// kindOf returns the kind of a manifest from its fields: the media type may be
// missing, and is not always part of the content with the digest.
func kindOf(raw []byte) (string, error) {
	if len(raw) > maxManifest {
		return "", errors.New("a manifest of more than 4 MiB is none")
	}
	m, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil {
		return "", fmt.Errorf("read the manifest: %w", err)
	}
	i, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	switch {
	case err != nil:
		return "", fmt.Errorf("read the manifest: %w", err)
	case m.SchemaVersion == 1:
		return "", errors.New("its manifest is of version 1, which is obsolete: build the image again")
	case len(i.Manifests) > 0 && len(m.Layers) > 0:
		return "", errors.New("its manifest is an image and an index at once")
	case len(i.Manifests) > 0:
		return isIndex, nil
	case m.Config.MediaType != "" && !m.Config.MediaType.IsConfig():
		return "", fmt.Errorf("it is no image, but an artifact of %.200q", m.Config.MediaType)
	case m.Config.Digest.Hex == "":
		return "", errors.New("its manifest names neither a configuration nor other manifests")
	}
	return isImage, nil
}

// choose returns the entry of an index for a platform. If the index has one entry
// without a platform, as in archives, it returns that entry.
func choose(i *v1.IndexManifest, p v1.Platform) (v1.Descriptor, error) {
	have := map[string]bool{}
	for _, d := range i.Manifests {
		if !d.MediaType.IsImage() && !d.MediaType.IsIndex() {
			continue
		}
		if d.Platform == nil {
			if len(i.Manifests) == 1 {
				return d, nil
			}
			continue
		}
		if d.Platform.OS == p.OS && d.Platform.Architecture == p.Architecture && suits(d.Platform.Variant, p) {
			return d, nil
		}
		if d.Platform.OS != "unknown" { // as in attestations
			have[d.Platform.String()] = true
		}
	}
	return v1.Descriptor{}, &PlatformError{p.String(), slices.Sorted(maps.Keys(have))}
}

// suits reports whether a variant of an architecture runs here: only the first
// variant of amd64 certainly does, and arm64 has one.
func suits(variant string, p v1.Platform) bool {
	return variant == "" || variant == p.Variant || p.Variant == "" && (p.Architecture == "arm64" && variant == "v8" || p.Architecture == "amd64" && variant == "v1")
}

func describeImage(ctx context.Context, src source, raw []byte, p v1.Platform) (described, error) {
	m, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil {
		return described{}, fmt.Errorf("read the manifest: %w", err)
	}
	if m.Config.Size <= 0 || m.Config.Size > maxManifest {
		return described{}, fmt.Errorf("its configuration has %d bytes: up to 4 MiB are accepted", m.Config.Size)
	}
	text, err := src.Config(ctx, m.Config)
	if err != nil {
		return described{}, err
	}
	if err := compare("the configuration", text, m.Config.Digest); err != nil {
		return described{}, err
	}
	c, err := v1.ParseConfigFile(bytes.NewReader(text))
	if err != nil {
		return described{}, fmt.Errorf("read the configuration: %w", err)
	}
	if c.OS != p.OS || c.Architecture != p.Architecture || !suits(c.Variant, p) {
		return described{}, &PlatformError{p.String(), []string{c.Platform().String()}}
	}
	return described{filetree.Digest(raw), m, c, raw, text}, nil
}

// check checks the configuration of an image against limits.
func (d described) check(l Limits) error {
	if len(d.manifest.Layers) != len(d.config.RootFS.DiffIDs) {
		return fmt.Errorf("its manifest has %d layers, and its configuration %d", len(d.manifest.Layers), len(d.config.RootFS.DiffIDs))
	}
	if len(d.manifest.Layers) > l.Layers {
		return fmt.Errorf("it has %d layers: %d are accepted: make the image smaller", len(d.manifest.Layers), l.Layers)
	}
	var bytes int64
	for n, layer := range d.manifest.Layers {
		switch diff := d.config.RootFS.DiffIDs[n]; {
		case layer.Size <= 0 || layer.Size > l.Compressed:
			return fmt.Errorf("its layer %s has %d bytes: up to %d are accepted: make the image smaller", layer.Digest, layer.Size, l.Compressed)
		case layer.Digest.Hex == "" || diff.Hex == "": // all others were read as SHA-256
			return fmt.Errorf("its layer %d has no digest", n)
		case !isTar(layer.MediaType):
			return fmt.Errorf("its layer %s is of %.200q: archives are accepted, plain or compressed by gzip or zstd", layer.Digest, layer.MediaType)
		}
		if bytes += layer.Size; bytes > l.Compressed {
			return fmt.Errorf("its layers have more than %d bytes: make the image smaller", l.Compressed)
		}
	}
	return nil
}

func isTar(m types.MediaType) bool {
	return slices.Contains([]types.MediaType{types.OCILayer, types.OCILayerZStd, types.OCIUncompressedLayer, types.DockerLayer, types.DockerUncompressedLayer, "application/vnd.docker.image.rootfs.diff.tar.zstd"}, m)
}

// compare verifies the digest of data.
func compare(what string, raw []byte, want v1.Hash) error {
	if have := filetree.Digest(raw); have != want.String() {
		return fmt.Errorf("%s has digest %s, want %s", what, have, want)
	}
	return nil
}

// image returns the record of a store for it.
func (d described) image() Image {
	c := d.config.Config
	m := Image{
		Digest:   d.digest,
		Platform: d.config.Platform().String(),
		Config: Config{
			Entrypoint: c.Entrypoint, Cmd: c.Cmd, Env: c.Env, User: c.User, WorkingDir: c.WorkingDir, StopSignal: c.StopSignal,
			Volumes: slices.Sorted(maps.Keys(c.Volumes)), ExposedPorts: slices.Sorted(maps.Keys(c.ExposedPorts)), Labels: c.Labels,
		},
	}
	for _, diff := range d.config.RootFS.DiffIDs {
		m.Layers = append(m.Layers, diff.String())
	}
	return m
}
