// SPDX-License-Identifier: Apache-2.0

// Package archive reads images from files: folders and archives in the OCI layout,
// and archives of "docker save".
package archive

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/capstan-dev/capstan/internal/host/ociimages/layers"
)

// Archive is a file or folder with images.
type Archive struct {
	root  *os.Root         // of a folder
	file  *os.File         // of an archive
	parts map[string]piece // positions of the files in it, by their names
	tmp   string           // for content that needs a separate file
	// docker has the files of an archive of docker save by digests that were computed
	// here.
	docker map[v1.Hash]string
	made   map[v1.Hash][]byte // manifests that were created here
}

// piece is the position of a file in an archive.
type piece struct{ at, size int64 }

// ErrNoImages means that a file contains no images.
var ErrNoImages = errors.New("this holds no images: neither index.json of an OCI layout nor manifest.json of docker save is there")

const (
	// maxText is the size limit of any file except layers.
	maxText = 4 << 20
	// maxPieces is far more than archives contain: some files for each layer.
	maxPieces = 100_000
)

// Open opens a folder or an archive, which may be compressed. The folder is an OCI
// layout, or has one in "layout", as build/image writes it. Open writes files of up
// to limit bytes below tmp, which the caller must remove.
func Open(file, tmp string, limit int64) (*Archive, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	a := &Archive{tmp: tmp, docker: map[v1.Hash]string{}, made: map[v1.Hash][]byte{}}
	if info.IsDir() {
		if info, err := os.Stat(filepath.Join(file, "layout", "index.json")); err == nil && info.Mode().IsRegular() {
			file = filepath.Join(file, "layout")
		}
		a.root, err = os.OpenRoot(file)
		return a, err
	}
	if a.file, err = os.Open(file); err != nil {
		return nil, err
	}
	if err := a.find(limit); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// Close closes the files.
func (a *Archive) Close() error {
	if a.root != nil {
		return a.root.Close()
	}
	return a.file.Close()
}

// find records the positions of the files in an archive. It decompresses the
// archive first if needed.
func (a *Archive) find(limit int64) error {
	if err := a.expand(limit); err != nil {
		return err
	}
	a.parts = map[string]piece{}
	for archive := tar.NewReader(a.file); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
		// The reader reads whole blocks, so the contents start at the file's offset.
		at, err := a.file.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeReg {
			a.parts[path.Clean(h.Name)] = piece{at, h.Size}
		}
		if h.Typeflag == tar.TypeSymlink { // older versions of docker save write a repeated layer so
			if p, ok := a.parts[path.Join(path.Dir(h.Name), h.Linkname)]; ok {
				a.parts[path.Clean(h.Name)] = p
			}
		}
		if len(a.parts) > maxPieces {
			return fmt.Errorf("the archive holds more than %d files", maxPieces)
		}
	}
}

// expand decompresses an archive.
func (a *Archive) expand(limit int64) (err error) {
	compressed, err := layers.Compressed(a.file)
	if err != nil || !compressed {
		return err
	}
	plain, err := layers.Decompress(a.file)
	if err != nil {
		return err
	}
	defer func() { _ = plain.Close() }() // only read
	whole, err := os.OpenFile(filepath.Join(a.tmp, "archive"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(whole, io.LimitReader(plain, limit+1))
	if err == nil && n > limit {
		err = fmt.Errorf("the archive unfolds to more than %d bytes", limit)
	}
	if err == nil {
		_, err = whole.Seek(0, io.SeekStart)
	}
	if err != nil {
		return errors.Join(err, whole.Close())
	}
	err = a.file.Close()
	a.file = whole
	return err
}

// open opens a file by its name.
func (a *Archive) open(name string) (io.ReadCloser, int64, error) {
	if a.root == nil {
		p, ok := a.parts[path.Clean(name)]
		if !ok {
			return nil, 0, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		return io.NopCloser(io.NewSectionReader(a.file, p.at, p.size)), p.size, nil
	}
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
func (a *Archive) read(name string) ([]byte, error) {
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

func (a *Archive) readJSON(name string, into any) error {
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
func (a *Archive) blob(h v1.Hash) string {
	if name, ok := a.docker[h]; ok {
		return name
	}
	return path.Join("blobs", h.Algorithm, h.Hex)
}

// Manifest returns the manifest of a digest, without verifying it.
func (a *Archive) Manifest(_ context.Context, h v1.Hash) ([]byte, error) {
	if made, ok := a.made[h]; ok {
		return made, nil
	}
	return a.read(a.blob(h))
}

// Config returns a configuration, without verifying its digest.
func (a *Archive) Config(_ context.Context, d v1.Descriptor) ([]byte, error) {
	return a.read(a.blob(d.Digest))
}

// Layer opens a layer with its stored compression.
func (a *Archive) Layer(_ context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	r, _, err := a.open(a.blob(d.Digest))
	return r, err
}
