// SPDX-License-Identifier: Apache-2.0

package imagetree

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Limits limit what an archive may unpack to; 0 is nothing at all.
type Limits struct {
	Files int   // folders, files and links
	Bytes int64 // of their contents
}

// Unpacker unpacks archives into a folder. The archive is not trusted: no name or
// link makes it write outside the folder; it refuses devices, pipes and sockets,
// and archives that exceed the limits.
type Unpacker struct {
	root   *os.Root
	limits Limits
	modes  []folderMode
	// whole is true if owners are set: only root may.
	whole bool
}

// folderMode is the final mode of a folder: until then it must be writable.
type folderMode struct {
	name string
	mode fs.FileMode
}

// NewUnpacker returns an Unpacker for an existing folder. It sets owners if the
// process runs as root; otherwise all files belong to its user.
func NewUnpacker(dir string, limits Limits) (*Unpacker, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Unpacker{root: root, limits: limits, whole: os.Geteuid() == 0}, nil
}

// Close sets the permissions of folders and releases resources.
func (u *Unpacker) Close() error {
	var errs []error
	for _, f := range slices.Backward(u.modes) { // inner ones first: an outer one may deny access
		errs = append(errs, u.root.Chmod(f.name, f.mode))
	}
	return errors.Join(append(errs, u.root.Close())...)
}

// Add unpacks one entry.
func (u *Unpacker) Add(h *tar.Header, r io.Reader) error {
	if err := u.add(h, r); err != nil {
		return fmt.Errorf("unpack %q: %w", h.Name, err)
	}
	return nil
}

func (u *Unpacker) add(h *tar.Header, r io.Reader) error {
	name, err := local(h.Name)
	if err != nil {
		return err
	}
	if u.limits.Files--; u.limits.Files < 0 {
		return errors.New("the archive holds more files than are accepted")
	}
	if err := u.refuseThroughLink(name); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return u.folder(name, h)
	case tar.TypeReg:
		return u.file(name, h, r)
	case tar.TypeSymlink:
		if err := u.root.Symlink(h.Linkname, name); err != nil {
			return err
		}
		return u.own(name, h)
	case tar.TypeLink:
		to, err := local(h.Linkname)
		if err == nil {
			err = u.refuseThroughLink(to)
		}
		if err != nil {
			return fmt.Errorf("link to %q: %w", h.Linkname, err)
		}
		return u.root.Link(to, name)
	case tar.TypeChar:
		if h.Devmajor == 0 && h.Devminor == 0 {
			return u.whiteout(name)
		}
	}
	return fmt.Errorf("entries of type %q (devices, pipes) are refused", h.Typeflag)
}

// local converts a name in an archive to one below the folder.
func local(name string) (string, error) {
	clean := path.Clean(strings.TrimSuffix(name, "/"))
	if name == "" || !filepath.IsLocal(clean) || strings.ContainsRune(name, 0) {
		return "", errors.New("the name leads out of the archive")
	}
	return clean, nil
}

// refuseThroughLink refuses a name with a symbolic link in its path. The os.Root
// would keep it inside, but the result would differ from the archive's names.
func (u *Unpacker) refuseThroughLink(name string) error {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		info, err := u.root.Lstat(dir)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return fmt.Errorf("%q on its way is no folder", dir)
		}
	}
	return nil
}

func (u *Unpacker) folder(name string, h *tar.Header) error {
	if err := u.root.Mkdir(name, 0o700); err != nil && name != "." {
		return err
	}
	if err := u.own(name, h); err != nil {
		return err
	}
	u.modes = append(u.modes, folderMode{name, mode(h)})
	f, err := u.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(setAttributes(f, h), f.Close())
}

func (u *Unpacker) file(name string, h *tar.Header, r io.Reader) error {
	if u.limits.Bytes -= h.Size; u.limits.Bytes < 0 {
		return errors.New("the archive unfolds to more bytes than are accepted")
	}
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, r, h.Size)
	if err == nil && u.whole {
		err = f.Chown(h.Uid, h.Gid)
	}
	if err == nil {
		err = errors.Join(setAttributes(f, h), f.Chmod(mode(h)))
	}
	return errors.Join(err, f.Close())
}

// whiteout creates overlayfs's marker for a deleted file of a lower layer.
func (u *Unpacker) whiteout(name string) error {
	dir, err := u.root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(makeWhiteout(dir, path.Base(name)), dir.Close())
}

func (u *Unpacker) own(name string, h *tar.Header) error {
	if !u.whole {
		return nil
	}
	return u.root.Lchown(name, h.Uid, h.Gid)
}

func setAttributes(f *os.File, h *tar.Header) error {
	for record, value := range h.PAXRecords {
		if name, ok := strings.CutPrefix(record, attributePrefix); ok && kept(name) {
			if err := unix.Fsetxattr(int(f.Fd()), name, []byte(value), 0); err != nil {
				return fmt.Errorf("set attribute %s: %w", name, err)
			}
		}
	}
	return nil
}

// mode returns the permissions of an entry as a Go file mode.
func mode(h *tar.Header) fs.FileMode {
	m := fs.FileMode(h.Mode & 0o777)
	for bit, is := range map[int64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if h.Mode&bit != 0 {
			m |= is
		}
	}
	return m
}
