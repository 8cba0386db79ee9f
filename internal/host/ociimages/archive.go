// SPDX-License-Identifier: Apache-2.0

package ociimages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/capstan-dev/capstan/internal/host/ociimages/layers"
)

// archive is a file or folder with images: folders and archives in the OCI layout, and
// archives of "docker save".
type archive struct {
	root *os.Root
	// docker has the files of an archive of docker save by digests that were computed
	// here.
	docker map[v1.Hash]string
	made   map[v1.Hash][]byte // manifests that were created here
}

// ErrNoImages means that a file contains no images.
var ErrNoImages = errors.New("this holds no images: neither index.json of an OCI layout nor manifest.json of docker save is there; export node images of an earlier version of Capstan again")

const (
	// maxText is the size limit of any file except layers.
	maxText = 4 << 20
	// maxArchived is far more than archives contain: some files for each layer.
	maxArchived = 100_000
)

// openArchive opens a folder or an archive, which may be compressed. The folder is an
// OCI layout, or has one in "layout", as build/image writes it. An archive is unpacked
// below tmp, which the caller must remove, into up to limit bytes.
func openArchive(ctx context.Context, file, tmp string, limit int64) (*archive, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		if file, err = unpackArchive(ctx, file, tmp, limit); err != nil {
			return nil, err
		}
	} else if info, err := os.Stat(filepath.Join(file, "layout", "index.json")); err == nil && info.Mode().IsRegular() {
		file = filepath.Join(file, "layout")
	}
	root, err := os.OpenRoot(file)
	return &archive{root: root, docker: map[v1.Hash]string{}, made: map[v1.Hash][]byte{}}, err
}

// unpackArchive unpacks an archive into a folder.
func unpackArchive(ctx context.Context, file, tmp string, limit int64) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read
	plain, err := layers.Decompress(f)
	if err != nil {
		return "", err
	}
	defer func() { _ = plain.Close() }() // only read
	unpacked, root := filepath.Join(tmp, "unpacked"), filepath.Join(tmp, "root")
	if err := errors.Join(os.Mkdir(unpacked, 0o700), os.Mkdir(root, 0o700)); err != nil {
		return "", err
	}
	if _, err := layers.Unpack(ctx, plain, unpacked, layers.Limits{Files: maxArchived, Bytes: limit}); err != nil {
		return "", err
	}
	return root, layers.Compose(ctx, []string{unpacked}, root)
}

// Close closes the folder.
func (a *archive) Close() error { return a.root.Close() }

// open opens a file by its name.
func (a *archive) open(name string) (io.ReadCloser, int64, error) {
	f, err := a.root.Open(name)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errors.New("it is no file")}
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// read reads a small file.
func (a *archive) read(name string) ([]byte, error) {
	r, size, err := a.open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // only read
	if size > maxText {
		return nil, fmt.Errorf("%s has %d bytes: up to 4 MiB are accepted", name, size)
	}
	return io.ReadAll(r)
}

func (a *archive) readJSON(name string, into any) error {
	text, err := a.read(name)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return err
}

// blob returns the file name of a digest.
func (a *archive) blob(h v1.Hash) string {
	if name, ok := a.docker[h]; ok {
		return name
	}
	return blobOf(h)
}

// Manifest returns the manifest of a digest, without verifying it.
func (a *archive) Manifest(_ context.Context, h v1.Hash) ([]byte, error) {
	if made, ok := a.made[h]; ok {
		return made, nil
	}
	return a.read(a.blob(h))
}

// Config returns a configuration, without verifying its digest.
func (a *archive) Config(_ context.Context, d v1.Descriptor) ([]byte, error) {
	return a.read(a.blob(d.Digest))
}

// Layer opens a layer with its stored compression.
func (a *archive) Layer(_ context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	r, _, err := a.open(a.blob(d.Digest))
	return r, err
}
