// SPDX-License-Identifier: Apache-2.0

package layers

import (
	"os"

	"golang.org/x/sys/unix"
)

// makeMarker creates overlayfs's marker for a deleted file of a lower layer.
func makeMarker(dir *os.File, name string) error {
	return unix.Mknodat(int(dir.Fd()), name, unix.S_IFCHR, 0)
}
