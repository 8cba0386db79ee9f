// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openTerminal opens a new terminal. It returns the supervisor's end, the
// container's end, and the path of the latter.
func openTerminal() (master, slave *os.File, name string, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, "", fmt.Errorf("open a terminal: %w", err)
	}
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, "", fmt.Errorf("unlock a terminal: %w", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, nil, "", fmt.Errorf("name a terminal: %w", err)
	}
	name = fmt.Sprintf("/dev/pts/%d", n)
	slave, err = os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, "", fmt.Errorf("open a terminal: %w", err)
	}
	// Output is stored unchanged, and none is echoed as input.
	mode, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err == nil {
		mode.Oflag &^= unix.OPOST
		mode.Lflag &^= unix.ECHO
		err = unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, mode)
	}
	if err != nil {
		return nil, nil, "", fmt.Errorf("set up a terminal: %w", err)
	}
	return master, slave, name, nil
}

// console stores the end of the output in two files, each of at most half the size.
// It never fails: a container must not stop because a disk is full.
type console struct {
	most int64 // of one file
	file *os.File
	size int64
}

func openConsole(bytes int64) *console {
	c := &console{most: max(bytes/2, 1)}
	if f, err := os.OpenFile(ConsoleFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err == nil {
		c.file = f
		if info, err := f.Stat(); err == nil {
			c.size = info.Size()
		}
	}
	return c
}

func (c *console) Write(b []byte) (int, error) {
	all := len(b)
	b = bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")) // terminals end lines so
	for len(b) > 0 && c.file != nil {
		if c.size >= c.most {
			c.turn()
			continue
		}
		n, err := c.file.Write(b[:min(int64(len(b)), c.most-c.size)])
		if err != nil {
			break
		}
		c.size += int64(n)
		b = b[n:]
	}
	return all, nil
}

// turn makes the newer file the older one.
func (c *console) turn() {
	_ = c.file.Close()                                                                          // its content is written
	_ = os.Rename(ConsoleFile, OlderFile)                                                       // or the newer file is overwritten
	c.file, _ = os.OpenFile(ConsoleFile, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600) // nil discards output
	c.size = 0
}
