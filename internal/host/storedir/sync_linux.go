// SPDX-License-Identifier: Apache-2.0

package storedir

import "golang.org/x/sys/unix"

// syncFiles waits until the whole file system of an open file is on disk.
func syncFiles(fd uintptr) error { return unix.Syncfs(int(fd)) }
