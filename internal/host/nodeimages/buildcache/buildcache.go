// SPDX-License-Identifier: Apache-2.0

// Package buildcache stores the result of each step of a long task, so that an
// interrupted task continues where it stopped, and steps that two tasks share are
// executed once.
package buildcache

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

	"github.com/capstan-dev/capstan/internal/host/ociimages/layers"
	"github.com/capstan-dev/capstan/internal/kit/lockfile"
)

// Step creates something from inputs.
type Step struct {
	// Name names the result in messages; a file name.
	Name string
	// Inputs are everything that the result depends on: versions, digests of the
	// results of other steps, the number of the recipe. Other inputs give another
	// result.
	Inputs []string
	// Resumes means that Make continues with the files in its folder. For other steps
	// the folder is empty.
	Resumes bool
	// Make creates the result in a folder. It is called again after a failure.
	Make func(ctx context.Context, dir string) error
}

// Outcome is the result of a step.
type Outcome struct {
	Dir    string // must not be changed
	Digest string // of the folder, by package layers
}

// Cache is a folder of results. One process at a time may use it.
type Cache struct {
	// Progress is called with steps that start and results that exist; it may be nil.
	Progress func(string)

	dir  string
	lock *os.File
	done map[string]Outcome // in this process, by folder: each is verified once
}

// ErrBusy means that another process uses the folder.
var ErrBusy = errors.New("another build works in this folder: wait for its end")

// The files of a Cache: a result and its digest in a file next to it, or an
// unfinished result.
const (
	lockFile   = "lock"
	digestFile = ".digest"
	unfinished = ".unfinished"
)

// Open opens a folder, which is created if it does not exist. If another process
// uses it, the error is ErrBusy.
func Open(dir string, progress func(string)) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := lockfile.TryLock(filepath.Join(dir, lockFile))
	if errors.Is(err, lockfile.ErrHeld) {
		err = fmt.Errorf("%s: %w", dir, ErrBusy)
	}
	if err != nil {
		return nil, err
	}
	return &Cache{Progress: progress, dir: dir, lock: lock, done: map[string]Outcome{}}, nil
}

// Close releases the folder for other processes.
func (c *Cache) Close() error { return lockfile.Unlock(c.lock) }

// Clear removes all results of a folder that no process uses.
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

// Do returns the result of a step, and creates it if it does not exist. It creates
// a result again that has been changed.
func (c *Cache) Do(ctx context.Context, s Step) (Outcome, error) {
	dir := filepath.Join(c.dir, s.Name+"-"+Key(s.Inputs))
	if o, ok := c.done[dir]; ok {
		return o, nil
	}
	o, err := c.load(ctx, dir)
	if err == nil {
		c.report("%s is there", s.Name)
		c.done[dir] = o
		return o, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		c.report("%s is there, but cannot be used: %v", s.Name, err)
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
	have, err := layers.Digest(ctx, dir)
	if err == nil && have != string(want) {
		err = fmt.Errorf("it has digest %s, want %s", have, want)
	}
	return Outcome{Dir: dir, Digest: have}, err
}

func (c *Cache) make(ctx context.Context, s Step, dir string) (Outcome, error) {
	c.report("%s ...", s.Name)
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
	digest, err := layers.Digest(ctx, work)
	if err != nil {
		return Outcome{}, err
	}
	if err := os.Rename(work, dir); err != nil {
		return Outcome{}, err
	}
	// The digest is written last: without it there is no result.
	return Outcome{Dir: dir, Digest: digest}, os.WriteFile(dir+digestFile, []byte(digest), 0o600)
}

func (c *Cache) report(format string, args ...any) {
	if c.Progress != nil {
		c.Progress(fmt.Sprintf(format, args...))
	}
}

// keyDigits are enough to distinguish inputs: 64 bits.
const keyDigits = 16

// Key returns the key for inputs.
func Key(inputs []string) string {
	text, err := json.Marshal(inputs)
	if err != nil { // strings can always be encoded
		text = []byte(strings.Join(inputs, "\x00"))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:keyDigits]
}
