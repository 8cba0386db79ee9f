// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/host/containermachines/bootresult"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
)

// console shows what is written to the console of a container, without what looks
// like a secret. Its folder has the newer part in one file and the older one in
// another; a newer file that is full replaces the older one.
type console struct {
	env    *command.Env
	folder string
	part   string // an incomplete line
}

func (c *console) newer() string { return filepath.Join(c.folder, "console.log") }

// show prints what is kept and, with follow, what is added until ctx ends or the
// container is removed.
func (c *console) show(ctx context.Context, follow bool) error {
	newer, err := open(c.newer()) // first: what becomes the older one now is not read twice
	if err != nil {
		return err
	}
	defer func() { _ = newer.Close() }()
	older, err := open(filepath.Join(c.folder, "console.old"))
	if err != nil {
		return err
	}
	defer func() { _ = older.Close() }()
	if same, err := newer.same(older); err != nil || !same {
		if err := cmp.Or(err, c.print(older)); err != nil {
			return err
		}
	}
	for {
		if err := c.print(newer); err != nil || !follow {
			c.end()
			return err
		}
		if lifecycle.Sleep(ctx, look) != nil {
			return nil
		}
		if newer, err = c.next(newer); newer == nil || err != nil {
			c.end()
			return err
		}
	}
}

// next is the file to which the console is written now, when f has been read to its
// end: another file if f is full, nil if the container is removed.
func (c *console) next(f *file) (*file, error) {
	now, err := open(c.newer())
	if err != nil {
		return nil, err
	}
	if now.File == nil {
		_, err := os.Stat(c.folder)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return f, err
	}
	same, err := now.same(f)
	if err != nil || same {
		return f, errors.Join(err, now.Close())
	}
	return now, errors.Join(c.print(f), f.Close()) // it had the rest of f before
}

// print prints the complete lines that were added to a file.
func (c *console) print(f *file) error {
	for f.File != nil {
		line, err := f.lines.ReadString('\n')
		c.part += line
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read the console: %w", err)
		}
		c.end()
	}
	return nil
}

// end shows the incomplete last line.
func (c *console) end() {
	if c.part != "" {
		c.env.Print("%s", strings.ReplaceAll(strings.TrimRight(bootresult.Mask(c.part), "\r\n"), "\t", "    "))
	}
	c.part = ""
}

// file is one of a console's; without an os.File it is not there, and empty.
type file struct {
	*os.File
	lines *bufio.Reader
}

func open(path string) (*file, error) {
	f, err := os.Open(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the console: %w", err)
	}
	if err != nil {
		return &file{}, nil
	}
	return &file{f, bufio.NewReader(f)}, nil
}

// same reports whether two files that are there are one.
func (f *file) same(other *file) (bool, error) {
	if f.File == nil || other.File == nil {
		return false, nil
	}
	one, err := f.Stat()
	if err != nil {
		return false, err
	}
	two, err := other.Stat()
	return err == nil && os.SameFile(one, two), err
}

// Close closes the file if it is there.
func (f *file) Close() error {
	if f == nil || f.File == nil {
		return nil
	}
	return f.File.Close()
}
