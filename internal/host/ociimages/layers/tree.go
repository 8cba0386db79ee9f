// SPDX-License-Identifier: Apache-2.0

package layers

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// isMarker reports whether a file is overlayfs's marker for a deleted file of a
// lower layer: formally a device, which every user may create and none can open.
func isMarker(st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0
}

// kept reports whether an extended attribute belongs to a file: capabilities, and
// what overlayfs records in the layers that containerd unpacks. All others belong
// to the host, such as labels of SELinux.
func kept(name string) bool {
	return name == "security.capability" || strings.HasPrefix(name, "trusted.overlay.")
}

// attributesOf returns the extended attributes of a file for which kept is true.
func attributesOf(path string) (map[string][]byte, error) {
	buf := make([]byte, 1<<16) // the kernel's maximum
	n, err := unix.Llistxattr(path, buf)
	if errors.Is(err, unix.ENOTSUP) {
		return nil, nil
	}
	if err != nil {
		return nil, &fs.PathError{Op: "llistxattr", Path: path, Err: err}
	}
	found := map[string][]byte{}
	for name := range strings.SplitSeq(string(buf[:n]), "\x00") {
		if !kept(name) {
			continue
		}
		value := make([]byte, 1<<16)
		n, err := unix.Lgetxattr(path, name, value)
		if err != nil {
			return nil, &fs.PathError{Op: "lgetxattr " + name, Path: path, Err: err}
		}
		found[name] = value[:n]
	}
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
