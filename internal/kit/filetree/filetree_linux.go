// SPDX-License-Identifier: Apache-2.0

package filetree

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Remove removes a tree, or a file; there need be none. A folder whose owner took rights
// away from itself gets them back first. Of what cannot be removed, the rest is removed.
func Remove(path string) error {
	parent, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if absent(err) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: filepath.Dir(path), Err: err}
	}
	defer func() { _ = unix.Close(parent) }() // only named
	var r remover
	for range passes {
		r = remover{}
		if err = r.tree(parent, filepath.Base(path)); err == nil && r.failed == nil {
			return nil
		}
	}
	if err == nil {
		err = fmt.Errorf("%d files or folders stay: %w", r.failures, r.failed)
	}
	return err
}

// remover removes what it visits.
type remover struct {
	failures int
	failed   error // the first
}

func (r *remover) tree(parent int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(parent, name, &st, unix.AT_SYMLINK_NOFOLLOW); absent(err) {
		return nil
	} else if err != nil {
		return &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return r.note(name, unix.Unlinkat(parent, name, 0))
	}
	return walk(parent, name, visitor{
		open: func(parent int, name string) (int, error) {
			fd, err := openWritable(parent, name)
			if err != nil && unix.Unlinkat(parent, name, unix.AT_REMOVEDIR) == nil {
				return -1, nil // it was empty
			}
			return fd, r.note(name, err)
		},
		file: func(dir int, name string, _ *unix.Stat_t) error { return r.remove(dir, name, 0) },
		left: func(parent int, name string) error { return r.remove(parent, name, unix.AT_REMOVEDIR) },
	})
}

func (r *remover) remove(dir int, name string, flags int) error {
	return r.note(name, unix.Unlinkat(dir, name, flags))
}

// note keeps an error, after which the walk continues.
func (r *remover) note(name string, err error) error {
	if err != nil && !absent(err) {
		r.failures++
		if r.failed == nil {
			r.failed = fmt.Errorf("%.100q: %w", name, err)
		}
	}
	return nil
}

// openWritable opens a folder whose entries its owner can remove then.
func openWritable(parent int, name string) (int, error) {
	named, err := unix.Openat(parent, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(named) }() // only named
	var st unix.Stat_t
	if err := unix.Fstat(named, &st); err != nil {
		return -1, err
	}
	if st.Mode&0o700 != 0o700 {
		if err := unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", named), 0o700); err != nil {
			return -1, err
		}
	}
	return unix.Openat(named, ".", openFlags, 0)
}

const openFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// passes is how often a tree is visited that is not removed by the first visit: folders
// may have been moved meanwhile.
const passes = 3

// measureTries is how often a tree is measured in which folders are moved meanwhile.
const measureTries = 5

// Measure adds up what a tree takes, until that is over limit bytes. What is deleted
// meanwhile does not count; what cannot be read is an error. A tree that does not exist
// takes nothing.
func Measure(path string, limit int64) (u Usage, err error) {
	for range measureTries {
		m := measurer{limit: limit, linked: map[inode]bool{}}
		if u, err = m.tree(path); !errors.Is(err, errMoved) {
			break
		}
	}
	if err != nil {
		return u, fmt.Errorf("measure %s: %w", path, err)
	}
	return u, nil
}

// measurer adds up what it visits.
type measurer struct {
	Usage
	limit  int64
	linked map[inode]bool // that have several names
}

const (
	// blockUnit is the unit of Stat_t.Blocks, for every file system.
	blockUnit = 512
	// nameBytes is what a further name of a file counts: as much as the longest takes in
	// its folder, rounded up.
	nameBytes = 512
	// maxLinked bounds the memory for files with several names; further ones count once
	// for each name.
	maxLinked = 1 << 20
)

var errFull = errors.New("over the limit")

func (m *measurer) tree(path string) (Usage, error) {
	var root unix.Stat_t
	if err := unix.Lstat(path, &root); absent(err) {
		return Usage{}, nil
	} else if err != nil {
		return Usage{}, err
	}
	// The folder itself is not its writer's, but its entries are.
	m.Bytes = max(0, root.Blocks*blockUnit-FileBytes)
	err := walk(unix.AT_FDCWD, path, visitor{
		open: func(parent int, name string) (int, error) {
			fd, err := unix.Openat(parent, name, openFlags, 0)
			if absent(err) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
				return -1, nil // it was replaced
			}
			if err != nil {
				return -1, fmt.Errorf("open %.100q: %w", name, err)
			}
			return fd, nil
		},
		file: func(_ int, _ string, st *unix.Stat_t) error { return m.add(st) },
	})
	if errors.Is(err, errFull) {
		err = nil
	}
	return m.Usage, err
}

func (m *measurer) add(st *unix.Stat_t) error {
	if m.seen(st) {
		m.Bytes += nameBytes
	} else {
		m.Files++
		m.Bytes += max(st.Blocks*blockUnit, FileBytes)
	}
	if m.Bytes > m.limit {
		return errFull
	}
	return nil
}

// seen reports whether this is a further name of a file.
func (m *measurer) seen(st *unix.Stat_t) bool {
	if st.Mode&unix.S_IFMT == unix.S_IFDIR || st.Nlink < 2 {
		return false
	}
	id := inode{st.Dev, st.Ino}
	if m.linked[id] {
		return true
	}
	if len(m.linked) < maxLinked {
		m.linked[id] = true
	}
	return false
}

type inode struct{ dev, ino uint64 }

// visitor is what is done with a tree. An error ends the walk.
type visitor struct {
	// open opens a folder; -1 leaves it out.
	open func(parent int, name string) (int, error)
	// file is called for all but the root: for files, and for folders before they are
	// opened if left is nil.
	file func(dir int, name string, st *unix.Stat_t) error
	// left is called for each folder, and the root, when all in it was visited.
	left func(parent int, name string) error
}

// errMoved means that a folder was moved while it was visited.
var errMoved = errors.New("a folder was moved meanwhile")

// level is a folder on the way to the one that is open.
type level struct {
	inode
	name string // of the one that was entered
	next int64  // where its entries continue
}

// walk visits a tree. One folder is open at a time: from it, the walk returns by its "..",
// which must be the folder that it came from.
func walk(parent int, root string, v visitor) error {
	dir, err := v.open(parent, root)
	if err != nil {
		return err
	}
	if dir >= 0 {
		w := walker{visitor: v, dir: dir, entries: entries{buf: make([]byte, bufBytes)}}
		err = w.run()
		_ = unix.Close(w.dir) // only read
	}
	if err == nil && v.left != nil {
		err = v.left(parent, root)
	}
	return err
}

type walker struct {
	visitor
	dir int
	entries
	above []level
}

func (w *walker) run() error {
	for {
		name, next, err := w.entries.next(w.dir)
		if err != nil {
			return err
		}
		if name != "" {
			err = w.visit(name, next)
		} else if len(w.above) > 0 {
			err = w.up()
		} else {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (w *walker) visit(name string, next int64) error {
	var st unix.Stat_t
	if err := unix.Fstatat(w.dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); absent(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("stat %.100q: %w", name, err)
	}
	folder := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if !folder || w.left == nil {
		if err := w.file(w.dir, name, &st); err != nil || !folder {
			return err
		}
	}
	var here unix.Stat_t
	if err := unix.Fstat(w.dir, &here); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	below, err := w.open(w.dir, name)
	if err != nil || below < 0 {
		return err
	}
	w.above = append(w.above, level{inode{here.Dev, here.Ino}, name, next})
	w.enter(below)
	return nil
}

func (w *walker) enter(dir int) {
	_ = unix.Close(w.dir) // only read
	w.dir = dir
	w.entries.reset()
}

func (w *walker) up() error {
	to := w.above[len(w.above)-1]
	dir, err := unix.Openat(w.dir, "..", openFlags, 0)
	if err != nil {
		return fmt.Errorf("leave folder %.100q: %w", to.name, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil || (inode{st.Dev, st.Ino}) != to.inode {
		_ = unix.Close(dir) // only read
		return errors.Join(errMoved, err)
	}
	w.above = w.above[:len(w.above)-1]
	w.enter(dir)
	if _, err := unix.Seek(dir, to.next, unix.SEEK_SET); err != nil {
		return os.NewSyscallError("seek", err)
	}
	if w.left != nil {
		return w.left(dir, to.name)
	}
	return nil
}

// bufBytes is small: after each folder below, the rest of it is read again.
const bufBytes = 8 << 10

// entries are those of the open folder.
type entries struct{ buf, rest []byte }

func (e *entries) reset() { e.rest = nil }

// next is an entry, and the start of those after it; "" is the end.
func (e *entries) next(dir int) (name string, next int64, err error) {
	for {
		if len(e.rest) == 0 {
			n, err := unix.Getdents(dir, e.buf)
			if absent(err) || err == nil && n == 0 {
				return "", 0, nil
			}
			if err != nil {
				return "", 0, os.NewSyscallError("getdents", err)
			}
			e.rest = e.buf[:n]
		}
		// struct linux_dirent64: ino uint64, off int64, reclen uint16, type uint8, name.
		const offAt, lengthAt, nameAt = 8, 16, 19
		next = int64(binary.NativeEndian.Uint64(e.rest[offAt:]))
		length := binary.NativeEndian.Uint16(e.rest[lengthAt:])
		raw, _, _ := bytes.Cut(e.rest[nameAt:length], []byte{0})
		e.rest = e.rest[length:]
		if name = string(raw); name != "." && name != ".." {
			return name, next, nil
		}
	}
}

func absent(err error) bool { return errors.Is(err, unix.ENOENT) }
