// SPDX-License-Identifier: Apache-2.0

package layers

import (
	"archive/tar"
	"context"
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

// Pack writes a folder into an archive, below name. The result is the same, byte
// for byte, for folders of the same digest.
func Pack(ctx context.Context, w *tar.Writer, dir, name string) error {
	p := packer{w: w, dir: dir, name: name, first: map[uint64]string{}}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		return p.add(path, e)
	})
	if err != nil {
		return fmt.Errorf("pack %s: %w", dir, err)
	}
	return nil
}

type packer struct {
	w         *tar.Writer
	dir, name string
	first     map[uint64]string // the first name of a file that has several
}

func (p *packer) add(path string, e fs.DirEntry) error {
	inside, err := filepath.Rel(p.dir, path)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	h := &tar.Header{
		Name: filepath.Join(p.name, inside), Mode: int64(st.Mode & 0o7777), Uid: int(st.Uid), Gid: int(st.Gid),
		ModTime: time.Unix(0, 0), Format: tar.FormatPAX, PAXRecords: map[string]string{},
	}
	switch {
	case e.IsDir():
		h.Typeflag = tar.TypeDir
		h.Name += "/"
	case e.Type() == fs.ModeSymlink:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = os.Readlink(path); err != nil {
			return err
		}
	case e.Type() == 0 && st.Nlink > 1 && p.first[st.Ino] != "":
		h.Typeflag, h.Linkname = tar.TypeLink, p.first[st.Ino]
		return p.w.WriteHeader(h)
	case e.Type() == 0:
		h.Typeflag, h.Size = tar.TypeReg, st.Size
		p.first[st.Ino] = h.Name
	case isMarker(&st):
		h.Typeflag = tar.TypeChar
	default:
		return fmt.Errorf("%s is a %s: only folders, files and links can be packed", path, kindOf(uint32(st.Mode)))
	}
	attributes, err := attributesOf(path)
	if err != nil {
		return err
	}
	for _, a := range attributes {
		name, value, _ := strings.Cut(a, "=")
		h.PAXRecords[attributePrefix+name] = value
	}
	if err := p.w.WriteHeader(h); err != nil {
		return err
	}
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	_, err = io.CopyN(p.w, f, h.Size)
	return err
}
