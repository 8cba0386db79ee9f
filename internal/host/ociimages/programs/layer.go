// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"archive/tar"
	"bytes"
	"cmp"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// File is a file of an image: a copy of a file of this host, a link, a folder, or
// content.
type File struct {
	Path    string // in the image
	From    string // on this host
	Link    string // instead of From
	Folder  bool   // instead of From
	Content []byte // instead of From
	Mode    int64  // 0 is executable
	Owner   int
}

// layerOf returns a layer of files in the order of their paths. Missing folders belong
// to root.
func layerOf(files []File, at time.Time, options ...tarball.LayerOption) (v1.Layer, error) {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	there := map[string]bool{".": true, "/": true}
	for _, f := range files {
		if err := addFolders(w, path.Dir(f.Path), there, at); err != nil {
			return nil, err
		}
		if err := add(w, f, at); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil }, options...)
}

func addFolders(w *tar.Writer, dir string, there map[string]bool, at time.Time) error {
	if there[dir] {
		return nil
	}
	there[dir] = true
	if err := addFolders(w, path.Dir(dir), there, at); err != nil {
		return err
	}
	return add(w, File{Path: dir, Folder: true}, at)
}

func add(w *tar.Writer, f File, at time.Time) (err error) {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(f.Path, "/"), Mode: cmp.Or(f.Mode, 0o755), Uid: f.Owner, Gid: f.Owner, ModTime: at}
	switch {
	case f.Link != "":
		h.Typeflag, h.Linkname = tar.TypeSymlink, f.Link
	case f.Folder:
		h.Typeflag = tar.TypeDir
		h.Name += "/"
	case f.From != "":
		if f.Content, err = os.ReadFile(f.From); err != nil {
			return err
		}
	}
	h.Size = int64(len(f.Content))
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err = w.Write(f.Content)
	return err
}
