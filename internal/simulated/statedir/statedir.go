// SPDX-License-Identifier: Apache-2.0

// Package statedir is the folder of a host in which simulated infrastructure is
// kept, for all processes that run some of it. What is kept there belongs to the
// host: one process at a time holds it, and another may hold it next.
//
//	<identity>/            what is kept of one cluster
//	<identity>/lock        locked by its holder, which describes itself in it
//	<identity>/wanted      locked, shared, by the processes that wait for it
//	<identity>.deleted/    what was given up and is being removed
//	.addresses/<address>   a link to the identity that has the address
//
// Locks are the kernel's: they end with the process, however that ends.
package statedir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/kit/filetree"
	"github.com/capstan-dev/capstan/internal/kit/lockfile"
)

const (
	lockFile   = "lock"
	wantedFile = "wanted"
	addresses  = ".addresses"
	deleted    = ".deleted" // what no identity has in its name
)

// ErrNone means that nothing is kept of an identity.
var ErrNone = errors.New("nothing is kept of it on this host")

// HeldError means that another process holds the stored state of an identity.
type HeldError struct{ Holder string }

func (e *HeldError) Error() string { return "it is held by " + e.Holder }

// Options is what Open needs.
type Options struct {
	// Path is the folder. It is created if it is missing; one that other users may
	// write to is refused, because it supplies keys.
	Path string
	// Links is a folder that has a link to all that is held, or was when its
	// process ended. Folders in it are from when the state was kept
	// there, and are taken over. "" or Path means none.
	Links string
	// Holder describes the holder of what is taken here, the same after a restart.
	Holder string
	Log    logr.Logger
}

// Dir is an open folder.
type Dir struct {
	Options
	ctx   context.Context // with the logger
	waits waits
}

// Open prepares the folder, and removes what was given up.
func Open(o Options) (*Dir, error) {
	if o.Path == "" {
		return nil, errors.New("no directory is given")
	}
	if o.Holder == "" {
		o.Holder = "another process"
	}
	if o.Links != "" && sameFolder(o.Links, o.Path) {
		o.Links = ""
	}
	d := &Dir{Options: o, ctx: logr.NewContext(context.Background(), o.Log)}
	for _, dir := range []string{o.Path, filepath.Join(o.Path, addresses), o.Links} {
		if dir == "" {
			continue
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		info, err := os.Stat(dir)
		if err != nil {
			return nil, err
		}
		if mode := info.Mode().Perm(); mode&0o022 != 0 {
			return nil, fmt.Errorf("%s has mode %04o, so others may write to it: check its content, then \"chmod go-w %[1]s\", or choose another folder", dir, mode)
		}
	}
	entries, err := os.ReadDir(o.Path)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if strings.Contains(e.Name(), deleted) {
			d.discard(filepath.Join(o.Path, e.Name()))
		}
	}
	return d, d.sortLinks()
}

// discard removes a folder that is of no identity any more.
func (d *Dir) discard(dir string) {
	if err := filetree.Discard(dir); err != nil {
		d.Log.Error(err, "Leaving files of a deleted simulated cluster", "path", dir)
	}
}

func sameFolder(a, b string) bool {
	x, errX := filepath.Abs(a)
	y, errY := filepath.Abs(b)
	return errX == nil && errY == nil && x == y
}

// Close ends all waiting.
func (d *Dir) Close() { d.waits.close() }

// Folder returns the path of the stored state of an identity.
func (d *Dir) Folder(id string) string { return filepath.Join(d.Path, FileName(id)) }

// FileName converts an identity, which another program chose, to the name of a
// file.
func FileName(id string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, id)
}

// sortLinks takes over the folders that lie among the links, and drops links to
// what is not there any more.
func (d *Dir) sortLinks() error {
	if d.Links == "" {
		return nil
	}
	entries, err := os.ReadDir(d.Links)
	if err != nil {
		return err
	}
	for _, e := range entries {
		from := filepath.Join(d.Links, e.Name())
		switch {
		case e.IsDir():
			if err := d.takeOver(from, filepath.Join(d.Path, e.Name())); err != nil {
				return fmt.Errorf("move %s to %s: %w", from, d.Path, err)
			}
		case e.Type()&fs.ModeSymlink != 0:
			if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
				if err := os.Remove(from); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// takeOver moves a folder, from another file system too. Nothing of it is
// removed before all of it is there.
func (d *Dir) takeOver(from, to string) error {
	if _, err := os.Lstat(to); err == nil {
		d.Log.Info("Leaving state of a simulated cluster where it is: there is some of that name in the host's folder", "path", from, "other", to)
		return nil
	}
	err := os.Rename(from, to)
	if !errors.Is(err, unix.EXDEV) {
		return err
	}
	next := to + ".copy" + deleted // swept, if it stays half done
	if err := errors.Join(os.RemoveAll(next), os.CopyFS(next, os.DirFS(from))); err != nil {
		return errors.Join(err, os.RemoveAll(next))
	}
	err = filepath.WalkDir(next, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := os.FileMode(0o600)
		if e.IsDir() {
			mode = 0o700
		}
		return errors.Join(os.Chmod(path, mode), Sync(path))
	})
	if err == nil {
		err = os.Rename(next, to)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(next))
	}
	return errors.Join(Sync(d.Path), os.RemoveAll(from))
}

// Sync has a file or folder on the disk before it returns.
func Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Held is what is kept of an identity, for us alone.
type Held struct {
	// Before is the holder that held it last and has not released it; "" if no
	// process ever held it, or if it was this one.
	Before string

	d    *Dir
	id   string
	lock *os.File
}

// holder is the content of a lock file.
type holder struct {
	Holder string `json:"holder"`
	PID    int    `json:"pid"`
}

// Take holds the stored state of an identity, without waiting. If there is none,
// begin decides whether it is created.
func (d *Dir) Take(id string, begin bool) (*Held, error) {
	for {
		if begin {
			if err := os.Mkdir(d.Folder(id), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
				return nil, err
			}
		}
		f, err := os.OpenFile(filepath.Join(d.Folder(id), lockFile), os.O_RDWR|os.O_CREATE, 0o600)
		if errors.Is(err, fs.ErrNotExist) {
			if begin {
				continue // it was given up between the two
			}
			return nil, ErrNone
		}
		if err != nil {
			return nil, err
		}
		if err := lockfile.Try(f); err != nil {
			err = d.explain(f, err)
			return nil, errors.Join(err, f.Close())
		}
		if !lockfile.Current(f) {
			_ = f.Close() // of what was given up; only locked
			continue
		}
		h := &Held{d: d, id: id, lock: f}
		if by := read(f); by.Holder != d.Holder {
			h.Before = by.Holder
		}
		h.say()
		return h, nil
	}
}

// say records the holder. The record only informs readers, and must not stop the
// holder when the disk is full.
func (h *Held) say() {
	err := h.write(holder{h.d.Holder, os.Getpid()})
	if to, _ := os.Readlink(h.link()); h.d.Links != "" && to != h.d.Folder(h.id) {
		err = errors.Join(err, h.unlink(), os.Symlink(h.d.Folder(h.id), h.link()))
	}
	if err != nil {
		h.d.Log.Error(err, "Noting who runs a simulated cluster", "identity", h.id)
	}
}

func (h *Held) link() string { return filepath.Join(h.d.Links, FileName(h.id)) }

// Close releases the lock until this process runs again.
func (h *Held) Close() error { return lockfile.Unlock(h.lock) }

// Release gives the state up permanently: another process may take it.
func (h *Held) Release() error {
	return errors.Join(h.unlink(), h.lock.Truncate(0), lockfile.Unlock(h.lock))
}

// unlink removes the link, if it is one: a user who restores a copy of a data
// directory may have dereferenced it.
func (h *Held) unlink() error {
	if _, err := os.Readlink(h.link()); h.d.Links == "" || err != nil {
		return nil
	}
	return ignoreMissing(os.Remove(h.link()))
}

// Leave releases the state of another holder, unchanged.
func (h *Held) Leave() error {
	return errors.Join(h.write(holder{Holder: h.Before}), h.unlink(), lockfile.Unlock(h.lock))
}

func (h *Held) write(by holder) error {
	text, err := json.Marshal(by)
	if err == nil {
		_, err = h.lock.WriteAt(append(text, '\n'), 0)
	}
	if err == nil {
		err = h.lock.Truncate(int64(len(text) + 1))
	}
	return err
}

// Wanted reports whether another process waits for it.
func (h *Held) Wanted() bool {
	f, err := os.Open(filepath.Join(h.d.Folder(h.id), wantedFile))
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // only locked
	return errors.Is(lockfile.Try(f), lockfile.ErrHeld)
}

// Delete gives up all that is kept. From its first step on there is nothing.
func (h *Held) Delete() error {
	from := h.d.Folder(h.id)
	to := from + deleted
	h.d.discard(to)
	err := ignoreMissing(os.Rename(from, to))
	if err == nil {
		err = h.unlink()
		h.d.discard(to)
	}
	return errors.Join(err, lockfile.Unlock(h.lock))
}

// explain converts the error of a held lock to one that names the holder.
func (d *Dir) explain(f *os.File, err error) error {
	if !errors.Is(err, lockfile.ErrHeld) {
		return err
	}
	by := read(f)
	if by.Holder == "" {
		return &HeldError{"another process"}
	}
	return &HeldError{fmt.Sprintf("%s (process %d)", by.Holder, by.PID)}
}

// read returns the content of a lock file; nothing if it cannot be read. The end of a
// longer record can follow it, if a holder ended while it wrote.
func read(f *os.File) (h holder) {
	if json.NewDecoder(io.NewSectionReader(f, 0, 1<<16)).Decode(&h) != nil { // no record is as long
		return holder{}
	}
	return h
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
