// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/host/containerproc"
)

// openConsoleTerminal opens the terminal of the console. Its output is stored
// unchanged, and none is echoed as input.
func openConsoleTerminal() (ours, theirs *os.File, err error) {
	ours, theirs, err = containerproc.OpenTerminal()
	if err != nil {
		return nil, nil, err
	}
	mode, err := unix.IoctlGetTermios(int(theirs.Fd()), unix.TCGETS)
	if err == nil {
		mode.Oflag &^= unix.OPOST
		mode.Lflag &^= unix.ECHO
		err = unix.IoctlSetTermios(int(theirs.Fd()), unix.TCSETS, mode)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("set up a terminal: %w", err) // the process exits
	}
	return ours, theirs, nil
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
