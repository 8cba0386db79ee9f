// SPDX-License-Identifier: Apache-2.0

package ociimages

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// layoutOf writes an OCI layout of an index with a name in an annotation.
func layoutOf(t *testing.T, index v1.ImageIndex, annotations map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layout")
	l, err := layout.Write(dir, empty.Index)
	must(t, err)
	must(t, l.AppendIndex(index, layout.WithAnnotations(annotations)))
	return dir
}

// packed returns an archive of a folder.
func packed(t *testing.T, dir string, compress bool) string {
	t.Helper()
	var buf bytes.Buffer
	var to io.Writer = &buf
	var z *gzip.Writer
	if compress {
		z = gzip.NewWriter(&buf)
		to = z
	}
	w := tar.NewWriter(to)
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		must(t, err)
		inside, err := filepath.Rel(dir, path)
		must(t, err)
		must(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "./" + inside, Size: int64(len(text)), Mode: 0o644}))
		_, err = w.Write(text)
		return err
	}))
	must(t, w.Close())
	if z != nil {
		must(t, z.Close())
	}
	file := filepath.Join(t.TempDir(), "images.tar")
	must(t, os.WriteFile(file, buf.Bytes(), 0o600))
	return file
}

// savedImage writes an image as docker save does.
func savedImage(t *testing.T, image v1.Image, tag string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "saved.tar")
	ref, err := name.NewTag(tag)
	must(t, err)
	must(t, tarball.WriteToFile(file, ref, image))
	return file
}

func TestImagesAreImported(t *testing.T) {
	t.Parallel()
	index := indexOf(t, imageFor(t, amd64), imageFor(t, arm64))
	full := map[string]string{"io.containerd.image.name": "example.com/a:v1", "org.opencontainers.image.ref.name": "v1"}
	for name, tc := range map[string]struct {
		file  string
		names []string
		want  []string
	}{
		"a folder":               {layoutOf(t, index, full), nil, []string{"example.com/a:v1"}},
		"an archive":             {packed(t, layoutOf(t, index, full), false), nil, []string{"example.com/a:v1"}},
		"a compressed archive":   {packed(t, layoutOf(t, index, full), true), nil, []string{"example.com/a:v1"}},
		"a name that is given":   {layoutOf(t, index, full), []string{"b:v2", "example.com/c"}, []string{"docker.io/library/b:v2", "example.com/c:latest"}},
		"a name of the layout":   {layoutOf(t, index, map[string]string{"org.opencontainers.image.ref.name": "example.com/d:v1"}), nil, []string{"example.com/d:v1"}},
		"docker save":            {savedImage(t, imageFor(t, amd64), "example.com/ee:v1"), nil, []string{"example.com/ee:v1"}},
		"docker save, unpacked":  {unpacked(t, savedImage(t, imageFor(t, amd64), "ff:v1")), nil, []string{"docker.io/library/ff:v1"}},
		"docker save, elsewhere": {savedImage(t, imageFor(t, amd64), "ff:v1"), []string{"g:v1"}, []string{"docker.io/library/g:v1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openStore(t)
			all, err := s.Import(t.Context(), tc.file, tc.names...)
			must(t, err)
			if len(all) != 1 || !slices.Equal(all[0].Names, tc.want) || all[0].Platform != "linux/amd64" {
				t.Fatalf("got %+v, want %v", all, tc.want)
			}
			if found, err := s.Find(tc.want[0]); err != nil || within(t, s, found, "a") != "amd64" {
				t.Errorf("it holds %v, %v", found, err)
			}
			if left := leftovers(t, s); len(left) != 2 {
				t.Errorf("there are %v, want a layer and a root", left)
			}
		})
	}
}

// unpacked returns a folder of an archive's content.
func unpacked(t *testing.T, file string) string {
	t.Helper()
	dir, err := unpackArchive(t.Context(), file, t.TempDir(), 1<<20)
	must(t, err)
	return dir
}

func TestFilesThatAreNotImported(t *testing.T) {
	t.Parallel()
	change := func(pattern string, change func(text []byte) []byte) string {
		dir := layoutOf(t, indexOf(t, imageFor(t, amd64)), map[string]string{"io.containerd.image.name": "a:v1"})
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		must(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			must(t, err)
			must(t, os.WriteFile(file, change(text), 0o600))
		}
		return dir
	}
	damage := func(text []byte) []byte { return append(bytes.Clone(text), ' ') }
	write := func(name, text string) string {
		file := filepath.Join(t.TempDir(), name)
		must(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	escape := t.TempDir()
	must(t, os.WriteFile(filepath.Join(escape, "manifest.json"), []byte(`[{"Config":"../../etc/passwd","RepoTags":["a:v1"],"Layers":[]}]`), 0o600))
	linked := t.TempDir()
	must(t, os.Symlink("/etc/passwd", filepath.Join(linked, "index.json")))
	for name, tc := range map[string]struct {
		file  string
		names []string
		want  string
	}{
		"nothing":                  {filepath.Join(t.TempDir(), "none"), nil, "no such file"},
		"an empty file":            {write("a.tar", ""), nil, "read the archive"},
		"no archive":               {write("a.tar", strings.Repeat("no", 2000)), nil, "read the archive"},
		"an empty folder":          {t.TempDir(), nil, ErrNoImages.Error()},
		"an index of nothing":      {change("index.json", func([]byte) []byte { return []byte("{}") }), nil, ErrNoImages.Error()},
		"an index that is none":    {change("index.json", func([]byte) []byte { return []byte("[]") }), nil, "read index.json"},
		"what is damaged":          {change("blobs/sha256/*", damage), nil, "has digest"},
		"what is cut":              {change("blobs/sha256/*", func(text []byte) []byte { return text[:len(text)/2] }), nil, "has digest"},
		"what is missing":          {gutted(t), nil, "no such file"},
		"no name":                  {layoutOf(t, indexOf(t, imageFor(t, amd64)), nil), nil, "give it a name"},
		"a tag alone":              {layoutOf(t, indexOf(t, imageFor(t, amd64)), map[string]string{"org.opencontainers.image.ref.name": "v1"}), nil, "give it a name"},
		"a bad name":               {layoutOf(t, indexOf(t, imageFor(t, amd64)), nil), []string{"A B"}, `name of an image "A B"`},
		"another platform":         {savedImage(t, imageFor(t, arm64), "aa:v1"), nil, "the image is for linux/arm64, not for linux/amd64"},
		"a name that climbs":       {escape, nil, "read the configuration of an image"},
		"a link out of the folder": {linked, nil, "read index.json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openStore(t)
			_, err := s.Import(t.Context(), tc.file, tc.names...)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "import "+tc.file+": ") {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if left := leftovers(t, s); len(left) > 0 {
				t.Errorf("it left %v", left)
			}
		})
	}
}

// gutted returns a layout that has only an index.
func gutted(t *testing.T) string {
	t.Helper()
	dir := layoutOf(t, indexOf(t, imageFor(t, amd64)), map[string]string{"io.containerd.image.name": "a:v1"})
	must(t, os.RemoveAll(filepath.Join(dir, "blobs")))
	return dir
}

func TestAnArchiveThatUnfoldsForEverIsRefused(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	for range 8 {
		_, err := z.Write(make([]byte, 1<<20))
		must(t, err)
	}
	must(t, z.Close())
	file := filepath.Join(t.TempDir(), "a.tar.gz")
	must(t, os.WriteFile(file, buf.Bytes(), 0o600))
	if _, err := openStore(t).Import(t.Context(), file); err == nil || !strings.Contains(err.Error(), "unfolds to more than") {
		t.Errorf("got %v, want a refusal", err)
	}
}
