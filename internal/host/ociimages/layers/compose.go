// SPDX-License-Identifier: Apache-2.0

package layers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Compose creates the root of an image from its unpacked layers, lowest first, in
// an empty folder. The whiteouts of a layer are applied before its files are added,
// independent of their order in the layer.
func Compose(ctx context.Context, unpacked []string, dir string) (err error) {
	if err := os.Chmod(dir, 0o755); err != nil { // any user of the Pod may enter
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	c := &composer{root: root, left: maxWork}
	for _, layer := range unpacked {
		c.layer = layer
		for _, step := range []func(*entry) error{c.hide, c.add} {
			err := readList(layer, func(e *entry) error {
				if err := errors.Join(ctx.Err(), step(e)); err != nil {
					return fmt.Errorf("%.200q: %w", e.Name, err)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

type composer struct {
	root  *os.Root
	layer string // its folder
	left  int    // of maxWork
}

// maxWork limits how many folders are passed on the way to the entries of an image, whose
// names and links may be long: three times as many as in an image of a million files.
const maxWork = 1 << 26

// hide removes what an entry hides.
func (c *composer) hide(e *entry) error {
	if e.Kind != whiteout && e.Kind != opaque {
		return nil
	}
	within := string(e.Name)
	if e.Kind == whiteout {
		within = path.Dir(within)
	}
	dir, err := c.resolve(within, false)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if e.Kind == whiteout {
		return c.root.RemoveAll(path.Join(dir, path.Base(string(e.Name))))
	}
	return c.in(dir, func(d *os.File) error {
		names, err := d.Readdirnames(-1)
		for _, name := range names {
			err = errors.Join(err, c.root.RemoveAll(path.Join(dir, name)))
		}
		return err
	})
}

// add creates the file of an entry. It replaces what exists, except a folder by the
// same folder.
func (c *composer) add(e *entry) error {
	if e.Kind == whiteout || e.Kind == opaque {
		return nil
	}
	dir, err := c.resolve(path.Dir(string(e.Name)), true)
	if err != nil {
		return err
	}
	name := path.Join(dir, path.Base(string(e.Name)))
	info, err := c.root.Lstat(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	again := err == nil && info.IsDir() && e.Kind == folder
	if err == nil && !again {
		if err := c.root.RemoveAll(name); err != nil {
			return err
		}
	}
	switch e.Kind {
	case folder:
		if !again {
			if err := c.root.Mkdir(name, 0o700); err != nil {
				return err
			}
		}
		// Permissions are set after the owner, since changing it may clear some.
		return errors.Join(c.own(name, e), c.root.Chmod(name, permissions(e, false)), c.in(name, e.setAttributes))
	case file:
		return c.link(dir, name, e)
	case symlink:
		return errors.Join(c.root.Symlink(string(e.Link), name), c.own(name, e))
	case hardlink:
		return c.same(name, string(e.Link))
	}
	return fmt.Errorf("the list of a layer has %q, which this version of Capstan does not know", e.Kind)
}

func (c *composer) own(name string, e *entry) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return c.root.Lchown(name, e.User, e.Group)
}

// in calls f with a file or folder of the image.
func (c *composer) in(name string, f func(*os.File) error) error {
	at, err := c.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f(at), at.Close())
}

// link links a file of the layer to its name.
func (c *composer) link(dir, name string, e *entry) error {
	from := contentOf(c.layer, e)
	err := c.in(dir, func(d *os.File) error {
		return unix.Linkat(unix.AT_FDCWD, from, int(d.Fd()), path.Base(name), 0)
	})
	if errors.Is(err, unix.EMLINK) {
		return c.copy(from, name, e)
	}
	if err != nil {
		return &os.LinkError{Op: "link", Old: from, New: name, Err: err}
	}
	return nil
}

// copy copies files with more names than the file system allows.
func (c *composer) copy(from, name string, e *entry) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // only read
	out, err := c.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, c.own(name, e), c.root.Chmod(name, permissions(e, false)), e.setAttributes(out), out.Close())
}

// same gives a second name to a file of the image.
func (c *composer) same(name, to string) error {
	dir, err := c.resolve(path.Dir(to), false)
	if err != nil {
		return fmt.Errorf("link to %.200q: %w", to, err)
	}
	to = path.Join(dir, path.Base(to))
	info, err := c.root.Lstat(to)
	if err != nil {
		return fmt.Errorf("link to %.200q: %w", to, err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("link to %.200q, which is no file", to)
	}
	return c.root.Link(to, name)
}

// maxLinks is the number of links that Linux follows in one path.
const maxLinks = 40

// Resolve returns the path of a file below a root. It follows links like a process with
// that root: absolute links start there, and ".." does not leave it.
func Resolve(root, name string) (string, error) {
	in, err := os.OpenRoot(root)
	if err != nil {
		return "", err
	}
	defer func() { _ = in.Close() }() // only read
	return (&composer{root: in, left: maxWork}).lookup(name, false, false)
}

// resolve returns the path of a folder of the image, like Resolve. A missing folder is
// created if create is true.
func (c *composer) resolve(name string, create bool) (string, error) {
	return c.lookup(name, create, true)
}

func (c *composer) lookup(name string, create, folder bool) (string, error) {
	at, rest := ".", strings.Split(path.Clean(name), "/")
	for links := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		if c.left -= 1 + strings.Count(at, "/"); c.left < 0 {
			return "", ErrTooLarge
		}
		switch part {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at) // the parent of the root is the root
			continue
		}
		next := path.Join(at, part)
		info, err := c.root.Lstat(next)
		switch {
		case errors.Is(err, os.ErrNotExist) && create:
			if err := c.root.Mkdir(next, 0o755); err != nil {
				return "", err
			}
			if err := c.root.Chmod(next, 0o755); err != nil { // independent of the umask
				return "", err
			}
			at = next
		case err != nil:
			return "", err
		case info.IsDir(), info.Mode().IsRegular() && len(rest) == 0 && !folder:
			at = next
		case info.Mode()&os.ModeSymlink == 0:
			return "", fmt.Errorf("%.200q on its way is no folder", next)
		default:
			if links++; links > maxLinks {
				return "", errors.New("too many links are on its way")
			}
			target, err := c.root.Readlink(next)
			if err != nil {
				return "", err
			}
			if path.IsAbs(target) {
				at = "."
			}
			rest = append(strings.Split(target, "/"), rest...)
		}
	}
	return at, nil
}
