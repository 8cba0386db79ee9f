// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"os"

	"golang.org/x/sys/unix"
)

// makeWhiteout makes what overlayfs has where a lower layer's file is gone.
func makeWhiteout(dir *os.File, name string) error {
	return unix.Mknodat(int(dir.Fd()), name, unix.S_IFCHR, 0)
}
