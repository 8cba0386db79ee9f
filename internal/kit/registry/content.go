// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/capstan-dev/capstan/internal/kit/download"
)

// maxTagPages limits the pages of tags: a registry sends a hundred and more in one.
const maxTagPages = 100

// Tags lists the tags of the repository.
func (r *Repository) Tags(ctx context.Context) (tags []string, err error) {
	err = r.each(ctx, func(c *connection) error {
		// Page size 0 leaves the number of tags in a page to the registry.
		puller, err := remote.NewPuller(remote.WithTransport(c.rt), remote.WithPageSize(0))
		if err != nil {
			return err
		}
		pages, err := puller.Lister(ctx, c.repo)
		if err != nil {
			return err
		}
		tags = nil
		for n := 0; pages.HasNext(); n++ {
			if n == maxTagPages {
				return &RefusedError{fmt.Sprintf("more than %d pages of tags", maxTagPages)}
			}
			page, err := pages.Next(ctx)
			if err != nil {
				return err
			}
			tags = append(tags, page.Tags...)
		}
		return nil
	})
	return tags, err
}

// Manifest fetches a manifest by a tag or digest; if id is empty, by that in the
// name of the image.
func (r *Repository) Manifest(ctx context.Context, id string) (found *remote.Descriptor, err error) {
	id = cmp.Or(id, r.id)
	err = r.each(ctx, func(c *connection) error {
		var ref name.Reference = c.repo.Tag(id)
		if strings.Contains(id, ":") {
			ref = c.repo.Digest(id)
		}
		found, err = remote.Get(ref, remote.WithContext(ctx), remote.WithTransport(c.rt), remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
		return err
	})
	return found, err
}

// Content fetches small content with a digest and a size.
func (r *Repository) Content(ctx context.Context, h v1.Hash, size int64) (data []byte, err error) {
	err = r.each(ctx, func(c *connection) error {
		layer, err := remote.Layer(c.repo.Digest(h.String()), remote.WithContext(ctx), remote.WithTransport(large{c.rt}))
		if err != nil {
			return err
		}
		body, err := layer.Compressed() // as it is stored; it checks the digest at its end
		if err != nil {
			return err
		}
		defer func() { _ = body.Close() }() // only read
		data, err = io.ReadAll(io.LimitReader(body, size+1))
		if err == nil && int64(len(data)) != size {
			err = fmt.Errorf("size mismatch: %d bytes, the manifest has %d", len(data), size)
		}
		return err
	})
	return data, err
}

// Image fetches an image for Linux on the processor of this program. Its layers become
// files of a folder, where the next call resumes a fetch that was interrupted.
func (r *Repository) Image(ctx context.Context, dir string) (v1.Image, error) {
	top, err := r.Manifest(ctx, "")
	if err != nil {
		return nil, err
	}
	image, err := top.Image()
	if err != nil {
		return nil, err
	}
	m, err := image.Manifest()
	if err != nil {
		return nil, err
	}
	for _, l := range m.Layers {
		if err := r.Blob(ctx, l.Digest, l.Size, filepath.Join(dir, l.Digest.Hex), func(int64) {}); err != nil {
			return nil, err
		}
	}
	return fetched{image, dir}, nil
}

// fetched is an image with its layers in a folder, by the digits of their digests.
type fetched struct {
	v1.Image
	dir string
}

// Layers implements v1.Image.
func (f fetched) Layers() ([]v1.Layer, error) {
	all, err := f.Image.Layers()
	if err != nil {
		return nil, err
	}
	for i, l := range all {
		digest, err := l.Digest()
		if err != nil {
			return nil, err
		}
		all[i] = layerFile{l, filepath.Join(f.dir, digest.Hex)}
	}
	return all, nil
}

// layerFile is a layer in a file.
type layerFile struct {
	v1.Layer
	file string
}

// Compressed implements v1.Layer: the file is as in the registry.
func (l layerFile) Compressed() (io.ReadCloser, error) { return os.Open(l.file) }

// Blob fetches content with a digest and a size into a file, unless the file
// exists. It resumes an earlier attempt, whose file next to it ends with .part. It
// calls report with the number of bytes received.
func (r *Repository) Blob(ctx context.Context, h v1.Hash, size int64, file string, report func(have int64)) error {
	return r.each(ctx, func(c *connection) error {
		scheme := "https"
		if c.plain {
			scheme = "http" // the transport replaces it if needed
		}
		u := url.URL{Scheme: scheme, Host: c.repo.RegistryStr(), Path: "/v2/" + c.repo.RepositoryStr() + "/blobs/" + h.String()}
		client := download.Client{
			HTTP: http.Client{Transport: large{c.rt}}, Pause: r.client.o.Pause, Idle: r.client.o.Idle, Limit: size,
			Progress: func(_ string, have, _ int64) { report(have) },
		}
		return client.File(ctx, u.String(), file, h.Hex)
	})
}
