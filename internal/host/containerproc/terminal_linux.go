// SPDX-License-Identifier: Apache-2.0

package containerproc

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// OpenTerminal opens a new terminal. It returns the end of this process, and that of
// a container, whose name is its path on the host.
func OpenTerminal() (ours, theirs *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open /dev/ptmx: %w", err)
	}
	ours = os.NewFile(uintptr(fd), "terminal")
	err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	if err == nil {
		var n uint32
		if n, err = unix.IoctlGetUint32(fd, unix.TIOCGPTN); err == nil {
			theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
		}
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open a terminal: %w", err), ours.Close())
	}
	return ours, theirs, nil
}
