// SPDX-License-Identifier: Apache-2.0

// Package layers unpacks untrusted archives, composes root folders from them, and
// treats a folder with its content as one value: it has a digest and a size, and can be
// copied and become a layer.
//
// An archive is unpacked into a list and numbered files, so that no name in it becomes
// a file name on the host. Names are only used to compose a folder, below an os.Root:
// no name and no link leads out of it. Files are hard links to those that were
// unpacked, so that files that several images share exist once.
//
// Layers are of two kinds. Those for Pods lose what a Pod must not have. Privileged ones,
// of machines, keep all that Pack writes; they can be packed again.
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
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Limits limit what one layer may unpack to; 0 is nothing at all.
type Limits struct {
	// Files is the number of folders, files, links and whiteouts.
	Files int
	// Bytes limits the size of the archive, and that of the contents of its files.
	Bytes int64
	// Privileged keeps set-id bits, extended attributes and overlayfs's markers for
	// deleted files, which machines need. It refuses all other devices, and pipes.
	Privileged bool
}

// Layer is an unpacked layer.
type Layer struct {
	// Digest is the digest of the uncompressed archive: "sha256:" and 64 digits.
	Digest string
	// Bytes is the size of the contents of its files, and Archive that of the archive.
	Bytes, Archive int64
}

// ErrTooLarge means that a layer exceeds its limits.
var ErrTooLarge = errors.New("the layer unfolds to more than is accepted")

const (
	// maxName is the longest path that Linux accepts, and maxPart its longest part.
	maxName = 4096
	maxPart = 255
	// maxNames limits all names, and attributes, of an archive: five times those of a
	// large Debian.
	maxNames = 64 << 20
	// lastID replaces owners beyond the range of a Pod: the kernel shows such owners
	// so, too.
	lastID = 65534
)

// The names with which a layer hides files of the layers below.
const (
	hides     = ".wh."
	hidesAll  = ".wh..wh..opq"
	hidesSelf = ".wh..wh." // reserved by aufs
)

// Unpack unpacks a layer, an uncompressed archive, into an empty folder. It reads r
// to its end. Unless the layer is privileged, it omits devices, pipes, set-id bits and
// extended attributes: a Pod has no use for them.
func Unpack(ctx context.Context, r io.Reader, dir string, l Limits) (Layer, error) {
	sum := sha256.New()
	bounded := &bounded{ctx: ctx, r: io.TeeReader(r, sum), left: l.Bytes}
	u := &unpacker{dir: dir, limits: l}
	err := writeList(dir, func(list *json.Encoder) error {
		u.list = list
		return u.all(ctx, tar.NewReader(bounded))
	})
	if err != nil {
		return Layer{}, err
	}
	// Data after the end of the archive is part of the digest.
	if _, err := io.Copy(io.Discard, bounded); err != nil {
		return Layer{}, fmt.Errorf("read the archive: %w", err)
	}
	return Layer{Digest: "sha256:" + hex.EncodeToString(sum.Sum(nil)), Bytes: l.Bytes - u.limits.Bytes, Archive: l.Bytes - bounded.left}, nil
}

// Extract unpacks the files with some names into a folder, from any folder of an
// archive, and makes them executable. The archive may be compressed.
func Extract(ctx context.Context, r io.Reader, dir string, names []string, l Limits) (err error) {
	plain, err := Decompress(r)
	if err != nil {
		return err
	}
	defer func() { _ = plain.Close() }() // only read
	tmp, err := os.MkdirTemp(dir, ".unpacked-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	if _, err := Unpack(ctx, plain, tmp, l); err != nil {
		return err
	}
	missing := slices.Clone(names)
	err = readList(tmp, func(e *entry) error {
		i := slices.Index(missing, path.Base(string(e.Name)))
		if e.Kind != file || i < 0 {
			return nil
		}
		to := filepath.Join(dir, missing[i])
		missing = slices.Delete(missing, i, i+1)
		return errors.Join(os.Rename(contentOf(tmp, e), to), os.Lchown(to, os.Geteuid(), os.Getegid()), os.Chmod(to, 0o755))
	})
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("it holds no %s", strings.Join(missing, ", "))
	}
	return err
}

// bounded reads until its context ends or the limit is exceeded.
type bounded struct {
	ctx  context.Context
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, ErrTooLarge
	}
	return n, err
}

type unpacker struct {
	dir     string
	limits  Limits
	list    *json.Encoder
	names   int // bytes
	entries int
}

func (u *unpacker) all(ctx context.Context, archive *tar.Reader) error {
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
		if err := u.add(h, archive); err != nil {
			return fmt.Errorf("unpack %.200q: %w", h.Name, err)
		}
	}
}

func (u *unpacker) add(h *tar.Header, r io.Reader) error {
	u.entries++
	u.names += len(h.Name) + len(h.Linkname)
	if u.entries > u.limits.Files || u.names > maxNames {
		return ErrTooLarge
	}
	name, err := local(h.Name)
	if err != nil {
		return err
	}
	e := &entry{Name: []byte(name), Mode: h.Mode & 0o1777, User: owner(h.Uid), Group: owner(h.Gid)}
	base := path.Base(name)
	if u.limits.Privileged {
		if os.Geteuid() != 0 && (h.Uid != os.Geteuid() || h.Gid != os.Getegid()) {
			return errors.New("only root can unpack it, as its files have many owners")
		}
		e.Mode, e.User, e.Group, e.Attributes = h.Mode&0o7777, h.Uid, h.Gid, attributesIn(h)
		for _, value := range e.Attributes {
			u.names += len(value)
		}
	}
	if strings.HasPrefix(base, hides) {
		return u.hide(e, path.Dir(name), base)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		e.Kind = folder
	case tar.TypeReg, tar.TypeGNUSparse, tar.TypeCont:
		e.Kind, e.Number = file, u.entries
		if !u.limits.Privileged {
			e.Mode &= 0o777
		}
		if err := u.content(e, h.ModTime, r); err != nil {
			return err
		}
	case tar.TypeSymlink:
		if h.Linkname == "" || len(h.Linkname) >= maxName || strings.ContainsRune(h.Linkname, 0) {
			return errors.New("it is a link to what no link can name")
		}
		e.Kind, e.Link = symlink, []byte(h.Linkname)
	case tar.TypeLink:
		to, err := local(h.Linkname)
		if err != nil {
			return fmt.Errorf("link to %.200q: %w", h.Linkname, err)
		}
		e.Kind, e.Link = hardlink, []byte(to)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo, tar.TypeXGlobalHeader:
		if !u.limits.Privileged {
			return nil // a Pod has its own /dev
		}
		if h.Typeflag != tar.TypeChar || h.Devmajor != 0 || h.Devminor != 0 {
			return errors.New("devices and pipes are refused")
		}
		e.Kind, e.Number = file, u.entries
		if err := unix.Mknod(contentOf(u.dir, e), unix.S_IFCHR, 0); err != nil { // a marker of overlayfs
			return err
		}
	default:
		return fmt.Errorf("entries of type %q are refused", h.Typeflag)
	}
	if name == "." {
		if e.Kind != folder {
			return errors.New("the root of an image is a folder")
		}
		return nil
	}
	return u.list.Encode(e)
}

// hide records what an entry hides that only looks like a file.
func (u *unpacker) hide(e *entry, dir, base string) error {
	hidden := strings.TrimPrefix(base, hides)
	switch {
	case base == hidesAll:
		e.Kind, e.Name = opaque, []byte(dir)
	case strings.HasPrefix(base, hidesSelf):
		return nil
	case hidden == "" || hidden == "." || hidden == "..":
		return errors.New("it hides nothing that has a name")
	default:
		e.Kind, e.Name = whiteout, []byte(path.Join(dir, hidden))
	}
	return u.list.Encode(e)
}

// content writes the content of a file.
func (u *unpacker) content(e *entry, at time.Time, r io.Reader) (err error) {
	name := contentOf(u.dir, e)
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	// The size in a header is not trusted, and a sparse file is larger than its data.
	n, err := io.Copy(f, io.LimitReader(r, u.limits.Bytes+1))
	if u.limits.Bytes -= n; err == nil && u.limits.Bytes < 0 {
		err = ErrTooLarge
	}
	if err == nil && os.Geteuid() == 0 {
		err = f.Chown(e.User, e.Group)
	}
	if err == nil {
		err = e.setAttributes(f) // changing the owner would remove some
	}
	return errors.Join(err, f.Chmod(permissions(e, u.limits.Privileged)), f.Close(), os.Chtimes(name, at, at))
}

// contentOf returns the file with the content of an entry of an unpacked archive.
func contentOf(dir string, e *entry) string {
	return filepath.Join(dir, filesDir, strconv.Itoa(e.Number))
}

// local converts a name in an archive to one below its root, including absolute
// names. It refuses names with "..", wherever they end.
func local(name string) (string, error) {
	clean := path.Clean("./" + name)
	switch {
	case name == "" || strings.ContainsRune(name, 0):
		return "", errors.New("this is no name")
	case len(clean) >= maxName:
		return "", fmt.Errorf("the name has more than %d bytes", maxName-1)
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "..":
			return "", errors.New("the name leads out of the image")
		case len(part) > maxPart:
			return "", fmt.Errorf("a part of the name has more than %d bytes", maxPart)
		}
	}
	return clean, nil
}

func owner(id int) int {
	if id < 0 || id > lastID {
		return lastID
	}
	return id
}

// permissions returns the permissions of an entry on this host: exact ones as they are;
// of others, a user other than root must be able to read and remove the files.
func permissions(e *entry, exact bool) os.FileMode {
	mode := os.FileMode(e.Mode & 0o777)
	for bit, is := range map[int64]os.FileMode{0o4000: os.ModeSetuid, 0o2000: os.ModeSetgid, 0o1000: os.ModeSticky} {
		if e.Mode&bit != 0 {
			mode |= is
		}
	}
	switch {
	case exact || os.Geteuid() == 0:
	case e.Kind == folder:
		mode |= 0o700
	default:
		mode |= 0o400
	}
	return mode
}
