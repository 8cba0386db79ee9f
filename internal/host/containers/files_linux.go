// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/host/rootfs"
)

// ReadFile reads a regular file as the processes of a running container see it, at
// most limit bytes; a longer file is an error. It follows no link out of the root.
func (l *Launcher) ReadFile(name, path string, limit int64) ([]byte, error) {
	text, err := l.readFile(name, path, limit)
	if err != nil {
		return nil, fmt.Errorf("read %s of container %s: %w", path, name, err)
	}
	return text, nil
}

func (l *Launcher) readFile(name, path string, limit int64) ([]byte, error) {
	root, err := l.openRoot(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(root) }() // opened with O_PATH
	// Opening a pipe could block, and opening a device could have effects.
	named, err := rootfs.Inside(root, path, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(named) }() // opened with O_PATH
	var what unix.Stat_t
	if err := unix.Fstat(named, &what); err != nil {
		return nil, err
	}
	if what.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errors.New("it is no regular file")
	}
	f, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", named)) // the same file, even if it has been renamed
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("it has more than %d bytes", limit)
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}

// openRoot opens the root of a running container as its processes see it.
func (l *Launcher) openRoot(name string) (int, error) {
	in, err := l.enter(name)
	if err != nil {
		return -1, err
	}
	defer in.close()
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", in.pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, gone(err)
	}
	// If the process still exists, its PID has not been reused.
	if err := unix.PidfdSendSignal(int(in.process.Fd()), 0, nil, 0); err != nil {
		_ = unix.Close(root) // it may belong to another process
		return -1, gone(err)
	}
	return root, nil
}
