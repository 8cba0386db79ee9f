// SPDX-License-Identifier: Apache-2.0

// Package steps keeps the outcome of each step of a long piece of work, so that work
// which was interrupted goes on where it stopped, and what two pieces have in common
// is done once.
package steps

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/access/nodeimages/tree"
)

// Step makes something out of inputs.
type Step struct {
	// Name says what it makes, for people; a file name.
	Name string
	// Inputs are all that the outcome depends on: versions, digests of the outcomes
	// of other steps, the number of the recipe. Another input is another outcome.
	Inputs []string
	// Resumes says that Make goes on with what it finds in its folder. Others find
	// it empty.
	Resumes bool
	// Make makes the outcome in a folder. It is called again after a failure.
	Make func(ctx context.Context, dir string) error
}

// Outcome is what a step has made.
type Outcome struct {
	Dir    string // must not be changed
	Digest string // of all in it, package tree
}

// Cache is a folder of outcomes. One process at a time may work in it.
type Cache struct {
	// Progress is told what begins and what was there already; nil is nobody.
	Progress func(string)

	dir  string
	lock *os.File
	done map[string]Outcome // in this process, by folder: they are looked at once
}

// ErrBusy says that another process works in the folder.
var ErrBusy = errors.New("another build works in this folder: wait for its end")

// The files of a Cache: an outcome and its digest beside it, or what is unfinished.
const (
	lockFile   = "lock"
	digestFile = ".digest"
	unfinished = ".unfinished"
)

// Open takes a folder, which is made if it is not there. If another process works in
// it, the error is ErrBusy.
func Open(dir string, progress func(string)) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = fmt.Errorf("%s: %w", dir, ErrBusy)
		}
		return nil, errors.Join(err, lock.Close())
	}
	return &Cache{Progress: progress, dir: dir, lock: lock, done: map[string]Outcome{}}, nil
}

// Close lets others work in the folder.
func (c *Cache) Close() error { return c.lock.Close() }

// Clear removes all outcomes of a folder in which nobody works.
func Clear(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	c, err := Open(dir, nil)
	if err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(dir), c.Close())
}

// Do returns the outcome of a step, and makes it if it is not there. An outcome that
// is not any more what was made is made anew.
func (c *Cache) Do(ctx context.Context, s Step) (Outcome, error) {
	dir := filepath.Join(c.dir, s.Name+"-"+Key(s.Inputs))
	if o, ok := c.done[dir]; ok {
		return o, nil
	}
	o, err := c.load(ctx, dir)
	if err == nil {
		c.tell("%s is there", s.Name)
		c.done[dir] = o
		return o, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		c.tell("%s is there, but cannot be used: %v", s.Name, err)
	}
	if err := ctx.Err(); err != nil {
		return Outcome{}, fmt.Errorf("make %s: %w", s.Name, context.Cause(ctx))
	}
	if o, err = c.make(ctx, s, dir); err != nil {
		return Outcome{}, fmt.Errorf("make %s: %w", s.Name, err)
	}
	c.done[dir] = o
	return o, nil
}

func (c *Cache) load(ctx context.Context, dir string) (Outcome, error) {
	want, err := os.ReadFile(dir + digestFile)
	if err != nil {
		return Outcome{}, err
	}
	have, err := tree.Digest(ctx, dir)
	if err == nil && have != string(want) {
		err = fmt.Errorf("it has digest %s, want %s", have, want)
	}
	return Outcome{Dir: dir, Digest: have}, err
}

func (c *Cache) make(ctx context.Context, s Step, dir string) (Outcome, error) {
	c.tell("%s ...", s.Name)
	work := dir + unfinished
	if !s.Resumes {
		if err := os.RemoveAll(work); err != nil {
			return Outcome{}, err
		}
	}
	if err := errors.Join(os.RemoveAll(dir+digestFile), os.RemoveAll(dir), os.MkdirAll(work, 0o755)); err != nil {
		return Outcome{}, err
	}
	if err := s.Make(ctx, work); err != nil {
		return Outcome{}, err
	}
	digest, err := tree.Digest(ctx, work)
	if err != nil {
		return Outcome{}, err
	}
	if err := os.Rename(work, dir); err != nil {
		return Outcome{}, err
	}
	// The digest comes last: without it there is no outcome.
	return Outcome{Dir: dir, Digest: digest}, os.WriteFile(dir+digestFile, []byte(digest), 0o600)
}

func (c *Cache) tell(format string, args ...any) {
	if c.Progress != nil {
		c.Progress(fmt.Sprintf(format, args...))
	}
}

// keyDigits are enough for inputs to differ: 64 bits.
const keyDigits = 16

// Key is what inputs are kept under.
func Key(inputs []string) string {
	text, err := json.Marshal(inputs)
	if err != nil { // strings always have JSON
		text = []byte(strings.Join(inputs, "\x00"))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:keyDigits]
}
