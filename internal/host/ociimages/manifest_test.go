// SPDX-License-Identifier: Apache-2.0

package ociimages

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/capstan-dev/capstan/internal/kit/filetree"
)

// echo is a source that returns the same content for each digest.
type echo struct{ manifest, config []byte }

func (e echo) Manifest(context.Context, v1.Hash) ([]byte, error) { return e.manifest, nil }

func (e echo) Config(context.Context, v1.Descriptor) ([]byte, error) { return e.config, nil }

func (e echo) Layer(context.Context, v1.Descriptor) (io.ReadCloser, error) {
	return nil, fmt.Errorf("there is none")
}

// FuzzManifests uses arbitrary data as manifests and configurations: what is
// accepted has matching digests, and layers within the limits.
func FuzzManifests(f *testing.F) {
	config := []byte(`{"os":"linux","architecture":"amd64","rootfs":{"type":"layers","diff_ids":["sha256:` + strings.Repeat("0", 64) + `"]}}`)
	f.Add([]byte(`{"schemaVersion":2,"config":{"size":9,"digest":"`+filetree.Digest(config)+`"},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar","size":5,"digest":"sha256:`+strings.Repeat("1", 64)+`"}]}`), config)
	f.Add([]byte(`{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json","size":1,"digest":"sha256:`+strings.Repeat("1", 64)+`"}]}`), config)
	l := Limits{Layers: 3, Files: 10, Bytes: 100, Compressed: 100}
	f.Fuzz(func(t *testing.T, raw, config []byte) {
		d, err := describe(t.Context(), echo{raw, config}, raw, amd64)
		if err != nil || d.check(l) != nil {
			return
		}
		m := d.image()
		if m.Digest != filetree.Digest(raw) || d.manifest.Config.Digest.String() != filetree.Digest(config) || len(m.Layers) > l.Layers || m.Platform != "linux/amd64" {
			t.Errorf("accepted %+v", m)
		}
		for _, digest := range m.Layers {
			if len(hexOf(digest)) != 64 || strings.ContainsAny(digest, "/.") {
				t.Errorf("a layer would lie in %q", digest)
			}
		}
	})
}
