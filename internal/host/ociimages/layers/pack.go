// SPDX-License-Identifier: Apache-2.0

package layers

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// attributePrefix starts the names of extended attributes in PAX records.
const attributePrefix = "SCHILY.xattr."

// Link makes a folder a privileged layer in an empty folder, as if its archive had been
// unpacked there. The layer has the folder's content below name; "." is its root. Files
// are hard links, so the content must not be written in place.
func Link(ctx context.Context, from, name, dir string) (l Layer, err error) {
	err = writeList(dir, func(list *json.Encoder) error {
		return visit(ctx, from, name, func(e *entry, path string, d fs.DirEntry) error {
			if e.Kind == file {
				info, err := d.Info()
				if err != nil {
					return err
				}
				l.Bytes += info.Size()
				if err := os.Link(path, contentOf(dir, e)); err != nil {
					return err
				}
			}
			return list.Encode(e)
		})
	})
	if err != nil {
		return Layer{}, fmt.Errorf("make a layer of %s: %w", from, err)
	}
	l.Digest, l.Archive, err = Sum(ctx, dir)
	return l, err
}

// Sum returns the digest and the size of the archive that Pack writes.
func Sum(ctx context.Context, dir string) (digest string, size int64, err error) {
	return sum(func(w *tar.Writer) error { return pack(ctx, w, dir) })
}

// Digest returns the digest of a folder as "sha256:" and 64 digits: that of its archive.
// It includes names, kinds, permissions, owners, contents and hard links, but no times.
func Digest(ctx context.Context, dir string) (string, error) {
	digest, _, err := sum(func(w *tar.Writer) error {
		return visit(ctx, dir, ".", func(e *entry, path string, _ fs.DirEntry) error { return e.pack(w, path) })
	})
	if err != nil {
		return "", fmt.Errorf("digest of %s: %w", dir, err)
	}
	return digest, nil
}

// visit calls f with all files of a folder as entries of a layer, and with their paths.
func visit(ctx context.Context, dir, name string, f func(e *entry, path string, d fs.DirEntry) error) error {
	first := map[uint64][]byte{} // the first name of each file
	number := 0
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		inside, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return &fs.PathError{Op: "lstat", Path: path, Err: err}
		}
		e := &entry{Name: []byte(filepath.Join(name, inside)), Mode: int64(st.Mode & 0o7777), User: int(st.Uid), Group: int(st.Gid)}
		switch {
		case string(e.Name) == ".":
			return nil // the root of an image has no entry
		case strings.HasPrefix(d.Name(), hides):
			return fmt.Errorf("%s has a name that hides another file in layers", path)
		case d.IsDir():
			e.Kind = folder
			e.Attributes, err = attributesOf(path)
		case d.Type() == fs.ModeSymlink:
			e.Kind = symlink
			var to string
			to, err = os.Readlink(path)
			e.Link = []byte(to)
		case first[st.Ino] != nil:
			e.Kind, e.Link = hardlink, first[st.Ino]
		case d.Type() == 0 || isMarker(&st):
			number++
			e.Kind, e.Number = file, number
			if d.Type() == 0 {
				first[st.Ino] = e.Name // no hard link leads to a marker
			}
			e.Attributes, err = attributesOf(path)
		default:
			err = fmt.Errorf("%s (%s) is neither a folder, a file nor a link", path, d.Type())
		}
		if err != nil {
			return err
		}
		return f(e, path, d)
	})
}

// sum returns the digest and the size of an archive.
func sum(write func(*tar.Writer) error) (digest string, size int64, err error) {
	hash := sha256.New()
	var counted counter
	out := tar.NewWriter(io.MultiWriter(hash, &counted))
	if err = write(out); err == nil {
		err = out.Close()
	}
	return "sha256:" + hex.EncodeToString(hash.Sum(nil)), int64(counted), err
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// Pack writes a privileged layer as an archive, which has the digest of the layer unless
// its files were changed.
func Pack(ctx context.Context, w io.Writer, dir string) error {
	out := tar.NewWriter(w)
	if err := pack(ctx, out, dir); err != nil {
		return fmt.Errorf("pack layer %s: %w", filepath.Base(dir), err)
	}
	return out.Close()
}

func pack(ctx context.Context, out *tar.Writer, dir string) error {
	return readList(dir, func(e *entry) error {
		return errors.Join(ctx.Err(), e.pack(out, contentOf(dir, e)))
	})
}

// kinds are the types of entries in archives.
var kinds = map[string]byte{folder: tar.TypeDir, symlink: tar.TypeSymlink, hardlink: tar.TypeLink, file: tar.TypeReg}

// pack writes an entry, and the content of a file.
func (e *entry) pack(out *tar.Writer, content string) error {
	h := &tar.Header{
		Typeflag: kinds[e.Kind], Name: string(e.Name), Linkname: string(e.Link), Mode: e.Mode, Uid: e.User, Gid: e.Group,
		ModTime: time.Unix(0, 0), Format: tar.FormatPAX, PAXRecords: map[string]string{},
	}
	attributes := e.Attributes
	switch e.Kind {
	case folder:
		h.Name += "/"
	case file: // those of the content show whether it was changed
		var st unix.Stat_t
		err := unix.Lstat(content, &st)
		if err == nil {
			attributes, err = attributesOf(content)
		}
		if err != nil {
			return &fs.PathError{Op: "read", Path: content, Err: err}
		}
		h.Mode, h.Uid, h.Gid, h.Size = int64(st.Mode&0o7777), int(st.Uid), int(st.Gid), st.Size
		if isMarker(&st) {
			h.Typeflag = tar.TypeChar
		}
	}
	for name, value := range attributes {
		h.PAXRecords[attributePrefix+name] = string(value)
	}
	if err := out.WriteHeader(h); err != nil || h.Typeflag != tar.TypeReg {
		return err
	}
	f, err := os.Open(content)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	_, err = io.CopyN(out, f, h.Size)
	return err
}
