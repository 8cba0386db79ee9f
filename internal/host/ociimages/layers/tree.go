// SPDX-License-Identifier: Apache-2.0

package layers

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/kit/filetree"
)

// Digest returns the digest of a folder as "sha256:" and 64 digits. It includes
// names, kinds, permissions, owners and contents, but neither times nor hard links,
// so that a copy has the digest of its original.
func Digest(ctx context.Context, dir string) (string, error) {
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		line, err := describe(dir, path, e)
		if err != nil {
			return err
		}
		_, err = io.WriteString(sum, line)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("digest of %s: %w", dir, err)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}

// describe returns one line with everything of a file that the digest includes.
// Names are quoted: a line break in one must not look like the next file.
func describe(dir, path string, e fs.DirEntry) (string, error) {
	name, err := filepath.Rel(dir, path)
	if err != nil {
		return "", err
	}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return "", &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	content := ""
	switch e.Type() {
	case 0:
		content, err = filetree.FileDigest(path)
	case fs.ModeSymlink:
		content, err = os.Readlink(path)
	case fs.ModeDir:
	default:
		if !isMarker(&st) {
			return "", fmt.Errorf("%s is a %s: only folders, files and links can be kept", path, kindOf(uint32(st.Mode)))
		}
	}
	if err != nil {
		return "", err
	}
	attributes, err := attributesOf(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%q %o %d %d %q %q\n", name, st.Mode, st.Uid, st.Gid, content, attributes), nil
}

// Size returns how many bytes a folder takes on disk. A file with several names
// counts once.
func Size(dir string) (int64, error) {
	var bytes int64
	seen := map[uint64]bool{}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return &fs.PathError{Op: "lstat", Path: path, Err: err}
		}
		if !seen[st.Ino] {
			seen[st.Ino] = true
			bytes += st.Blocks * blockSize
		}
		return nil
	})
	return bytes, err
}

// blockSize is the unit of Stat_t.Blocks on every file system.
const blockSize = 512

// isMarker reports whether a file is overlayfs's marker for a deleted file of a
// lower layer: formally a device, which every user may create and none can open.
func isMarker(st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0
}

func kindOf(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFCHR, unix.S_IFBLK:
		return "device"
	case unix.S_IFIFO:
		return "pipe"
	case unix.S_IFSOCK:
		return "socket"
	}
	return "file of an unknown kind"
}

// kept reports whether an extended attribute belongs to a file: capabilities, and
// what overlayfs records in the layers that containerd unpacks. All others belong
// to the host, such as labels of SELinux.
func kept(name string) bool {
	return name == "security.capability" || strings.HasPrefix(name, "trusted.overlay.")
}

// attributesOf returns the extended attributes of a file for which kept is true,
// sorted, as name=value.
func attributesOf(path string) ([]string, error) {
	buf := make([]byte, 1<<10)
	n, err := unix.Llistxattr(path, buf)
	if errors.Is(err, unix.ERANGE) {
		buf = make([]byte, 1<<16) // the kernel's maximum
		n, err = unix.Llistxattr(path, buf)
	}
	if errors.Is(err, unix.ENOTSUP) {
		return nil, nil
	}
	if err != nil {
		return nil, &fs.PathError{Op: "llistxattr", Path: path, Err: err}
	}
	var found []string
	for name := range strings.SplitSeq(string(buf[:n]), "\x00") {
		if !kept(name) {
			continue
		}
		value := make([]byte, 1<<16)
		n, err := unix.Lgetxattr(path, name, value)
		if err != nil {
			return nil, &fs.PathError{Op: "lgetxattr " + name, Path: path, Err: err}
		}
		found = append(found, name+"="+string(value[:n]))
	}
	sort.Strings(found)
	return found, nil
}

// attributesIn returns the extended attributes of an entry of an archive for which kept
// is true.
func attributesIn(h *tar.Header) map[string][]byte {
	found := map[string][]byte{}
	for record, value := range h.PAXRecords {
		if name, ok := strings.CutPrefix(record, attributePrefix); ok && kept(name) {
			found[name] = []byte(value)
		}
	}
	return found
}

// setAttributes sets the extended attributes of an entry.
func (e *entry) setAttributes(f *os.File) error {
	for name, value := range e.Attributes {
		if err := unix.Fsetxattr(int(f.Fd()), name, value, 0); err != nil {
			return fmt.Errorf("set attribute %s: %w", name, err)
		}
	}
	return nil
}
