// SPDX-License-Identifier: Apache-2.0

package nodeimages

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/capstan-dev/capstan/internal/host/nodeimages/buildcache"
	"github.com/capstan-dev/capstan/internal/host/ociimages/layers"
	"github.com/capstan-dev/capstan/internal/kit/filetree"
)

// Format is the compression of an archive.
type Format string

// The formats of archives.
const (
	Plain Format = ""
	Gzip  Format = "gzip"
	Zstd  Format = "zstd"
)

// FormatOf returns the format for the name of a file.
func FormatOf(file string) (Format, error) {
	for suffix, f := range map[string]Format{".tar": Plain, ".tar.gz": Gzip, ".tgz": Gzip, ".tar.zst": Zstd} {
		if strings.HasSuffix(file, suffix) {
			return f, nil
		}
	}
	return "", fmt.Errorf("%s has no known format: end it with .tar, .tar.gz or .tar.zst", file)
}

// Export writes the image as one archive: its manifest first, then its folders. It
// fails if the image does not match its ID.
func (i Image) Export(ctx context.Context, w io.Writer, f Format) error {
	if err := i.export(ctx, w, f); err != nil {
		return fmt.Errorf("export node image %s: %w", i.ID, err)
	}
	return nil
}

func (i Image) export(ctx context.Context, w io.Writer, f Format) error {
	if err := i.Verify(ctx); err != nil {
		return err
	}
	var compressed io.WriteCloser
	switch f {
	case Gzip:
		compressed = gzip.NewWriter(w)
	case Zstd:
		z, err := zstd.NewWriter(w)
		if err != nil {
			return err
		}
		compressed = z
	default:
		compressed = plain{w}
	}
	archive := tar.NewWriter(compressed)
	text, err := os.ReadFile(filepath.Join(i.dir, manifestFile))
	if err != nil {
		return err
	}
	if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: manifestFile, Mode: 0o644, Size: int64(len(text)), ModTime: time.Unix(0, 0)}); err != nil {
		return err
	}
	if _, err := archive.Write(text); err != nil {
		return err
	}
	for _, name := range []string{nodeTree, rootTree, varTree} {
		if err := layers.Pack(ctx, archive, filepath.Join(i.dir, name), name); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), compressed.Close())
}

// plain does not compress.
type plain struct{ io.Writer }

func (plain) Close() error { return nil }

// limits are ten times the size of current images.
var limits = layers.Limits{Files: 200_000, Bytes: 10 << 30}

// Import adds the image of an archive in any format to the store. The archive is
// not trusted: nothing is written outside the store, and it becomes an image only
// if its files have the digests of its manifest. Unless want is empty, it must have
// that ID. Import succeeds if the image exists already.
func (s *Store) Import(ctx context.Context, r io.Reader, want string) (Image, error) {
	i, err := s.importImage(ctx, r, want)
	return i, s.full(err)
}

func (s *Store) importImage(ctx context.Context, r io.Reader, want string) (Image, error) {
	in, err := layers.Decompress(r)
	if err != nil {
		return Image{}, err
	}
	defer func() { _ = in.Close() }() // only read
	dir, done, err := s.dir.Temp()
	if err != nil {
		return Image{}, err
	}
	defer done()
	dir = filepath.Join(dir, "image")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return Image{}, err
	}
	archive := tar.NewReader(in)
	m, err := importManifest(archive, want)
	if err != nil {
		return Image{}, err
	}
	if err := unpack(ctx, archive, dir); err != nil {
		return Image{}, err
	}
	return s.publish(ctx, dir, m)
}

// IsArchive reports whether r starts like an archive of a node image.
func IsArchive(r io.Reader) bool {
	in, err := layers.Decompress(r)
	if err != nil {
		return false
	}
	defer func() { _ = in.Close() }() // only read
	h, err := tar.NewReader(in).Next()
	return err == nil && h.Name == manifestFile
}

// importManifest reads the first entry of an archive.
func importManifest(archive *tar.Reader, want string) (manifest, error) {
	h, err := archive.Next()
	if err != nil || h.Name != manifestFile || h.Typeflag != tar.TypeReg || h.Size > maxManifest {
		return manifest{}, errors.Join(errors.New("this is no node image: it does not begin with "+manifestFile), err)
	}
	text, err := io.ReadAll(archive)
	if err != nil {
		return manifest{}, fmt.Errorf("read %s: %w", manifestFile, err)
	}
	if have := filetree.Digest(text); want != "" && want != have {
		return manifest{}, fmt.Errorf("this is node image %s, not %s", have, want)
	}
	m, err := readManifest(text)
	if err != nil {
		return manifest{}, fmt.Errorf("read %s: %w", manifestFile, err)
	}
	return m, nil
}

// unpack unpacks the entries after the manifest.
func unpack(ctx context.Context, archive *tar.Reader, dir string) error {
	if err := layers.UnpackTree(ctx, archive, dir, limits); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if name := e.Name(); name != nodeTree && name != rootTree && name != varTree {
			return fmt.Errorf("the archive holds %q, which is in no folder of an image", name)
		}
	}
	return err
}

// CacheSize returns how many bytes the results of build steps take on disk,
// including those that are shared with images.
func (s *Store) CacheSize() (int64, error) {
	dir := s.dir.Join(cacheDir)
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	return layers.Size(dir)
}

// ClearCache removes the results of build steps. If a build runs, the error is
// steps.ErrBusy.
func (s *Store) ClearCache() error { return buildcache.Clear(s.dir.Join(cacheDir)) }
