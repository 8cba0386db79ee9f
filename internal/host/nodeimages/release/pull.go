// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/capstan-dev/capstan/internal/host/nodeimages/buildcache"
	"github.com/capstan-dev/capstan/internal/host/nodeimages/ocitar"
	"github.com/capstan-dev/capstan/internal/pure/nodecomponents"
)

// Image fetches an image from its registry. Its tag is resolved to digests, by
// which its layers are fetched like files: a partial download is resumed.
func (s *Source) Image(ctx context.Context, c *buildcache.Cache, _ nodecomponents.Versions, image nodecomponents.Image, _ buildcache.Outcome) (string, error) {
	file := image.Name + ".tar"
	o, err := c.Do(ctx, buildcache.Step{Name: "pull-" + image.Name, Inputs: []string{recipe, image.Ref, runtime.GOARCH}, Resumes: true, Make: func(ctx context.Context, dir string) error {
		layers := filepath.Join(dir, "layers")
		got, err := s.pull(ctx, image.Ref, layers)
		if err != nil {
			return fmt.Errorf("pull %s: %w", image.Ref, err)
		}
		if err := ocitar.Save(filepath.Join(dir, file), image.Ref, got); err != nil {
			return err
		}
		return os.RemoveAll(layers)
	}})
	return filepath.Join(o.Dir, file), err
}

// pull returns an image for this host with its layers in a folder.
func (s *Source) pull(ctx context.Context, image, dir string) (v1.Image, error) {
	ref, err := name.ParseReference(image)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	repo := ref.Context()
	asks, err := transport.NewWithContext(ctx, repo.Registry, authn.Anonymous, s.Transport, []string{repo.Scope(transport.PullScope)})
	if err != nil {
		return nil, err
	}
	got, err := remote.Image(ref, remote.WithContext(ctx), remote.WithTransport(asks), remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	if err != nil {
		return nil, err
	}
	m, err := got.Manifest()
	if err != nil {
		return nil, err
	}
	client := *s.Client
	client.HTTP = &http.Client{Transport: asks}
	for _, l := range m.Layers {
		url := fmt.Sprintf("%s://%s/v2/%s/blobs/%s", repo.Scheme(), repo.RegistryStr(), repo.RepositoryStr(), l.Digest)
		if err := client.File(ctx, url, filepath.Join(dir, l.Digest.Hex), l.Digest.Hex); err != nil {
			return nil, err
		}
	}
	return pulled{got, dir}, nil
}

// pulled is an image with its layers in a folder, by the digits of their digests.
type pulled struct {
	v1.Image
	dir string
}

// Layers implements v1.Image.
func (p pulled) Layers() ([]v1.Layer, error) {
	all, err := p.Image.Layers()
	if err != nil {
		return nil, err
	}
	for i, l := range all {
		digest, err := l.Digest()
		if err != nil {
			return nil, err
		}
		all[i] = layer{l, filepath.Join(p.dir, digest.Hex)}
	}
	return all, nil
}

// layer is a layer that has been fetched into a file.
type layer struct {
	v1.Layer
	file string
}

// Compressed implements v1.Layer: the file is as in the registry.
func (l layer) Compressed() (io.ReadCloser, error) { return os.Open(l.file) }
