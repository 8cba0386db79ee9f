// SPDX-License-Identifier: Apache-2.0

package imagetree

import (
	"os"

	"golang.org/x/sys/unix"
)

// makeWhiteout creates overlayfs's marker for a deleted file of a lower layer.
func makeWhiteout(dir *os.File, name string) error {
	return unix.Mknodat(int(dir.Fd()), name, unix.S_IFCHR, 0)
}
