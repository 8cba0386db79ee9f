// SPDX-License-Identifier: Apache-2.0

// Package ocitar writes container images as archives that containerd imports.
package ocitar

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// File is a file of an image: a copy of a file of this host, or a link.
type File struct {
	Path string // in the image
	From string // on this host
	Link string // instead of From
}

// Write writes an image of one layer, in which all files belong to root and are
// executable. The same files give the same image.
func Write(archive, ref string, entrypoint []string, files []File) error {
	layer, err := layerOf(files)
	if err != nil {
		return fmt.Errorf("image %s: %w", ref, err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return fmt.Errorf("image %s: %w", ref, err)
	}
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		Architecture: runtime.GOARCH, OS: "linux", RootFS: rootFS(image),
		Config: v1.Config{Entrypoint: entrypoint, Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}},
	})
	if err != nil {
		return fmt.Errorf("image %s: %w", ref, err)
	}
	return Save(archive, ref, image)
}

// Save writes an image to a file under a reference with a tag.
func Save(archive, ref string, image v1.Image) error {
	tag, err := name.NewTag(ref)
	if err != nil {
		return fmt.Errorf("image %s: %w", ref, err)
	}
	if err := tarball.WriteToFile(archive, tag, image); err != nil {
		return fmt.Errorf("image %s: %w", ref, err)
	}
	return nil
}

// rootFS returns the root file system of an image with its layers.
func rootFS(image v1.Image) v1.RootFS {
	config, err := image.ConfigFile()
	if err != nil {
		return v1.RootFS{Type: "layers"}
	}
	return config.RootFS
}

func layerOf(files []File) (v1.Layer, error) {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	made := map[string]bool{"/": true}
	for _, f := range files {
		if err := addFolders(w, path.Dir(f.Path), made); err != nil {
			return nil, err
		}
		if err := add(w, f); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil })
}

func addFolders(w *tar.Writer, dir string, made map[string]bool) error {
	if made[dir] {
		return nil
	}
	made[dir] = true
	if err := addFolders(w, path.Dir(dir), made); err != nil {
		return err
	}
	return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: strings.TrimPrefix(dir, "/") + "/", Mode: 0o755, ModTime: time.Unix(0, 0)})
}

func add(w *tar.Writer, f File) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(f.Path, "/"), Mode: 0o755, ModTime: time.Unix(0, 0)}
	if f.Link != "" {
		h.Typeflag, h.Linkname = tar.TypeSymlink, f.Link
		return w.WriteHeader(h)
	}
	content, err := os.ReadFile(f.From)
	if err != nil {
		return err
	}
	h.Size = int64(len(content))
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err = w.Write(content)
	return err
}
