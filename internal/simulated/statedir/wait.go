// SPDX-License-Identifier: Apache-2.0

package statedir

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/internal/kit/lockfile"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// waits are those that wait for what others hold.
type waits struct {
	mu      sync.Mutex // guards all below
	waiting map[string]*wait
	watch   *watch // nil as long as no caller waits
	closed  bool
}

// wait is one of them.
type wait struct {
	wanted *os.File // locked, so that it is not given up meanwhile
	free   func()
}

// Locks are released a moment after the kernel has reported that their file was
// closed: the lock is checked again after firstLook, doubled, up to lastLook.
const (
	firstLook = time.Millisecond
	lastLook  = 512 * time.Millisecond
)

// Await calls free once when the stored state of an identity may no longer be held,
// or is deleted. Nothing runs meanwhile where the kernel reports changes.
func (d *Dir) Await(id string, free func()) error {
	w := &d.waits
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.waiting[id] != nil {
		return nil
	}
	if w.watch == nil {
		w.waiting, w.watch = map[string]*wait{}, newWatch(func(id string) { recovery.Func(d.ctx, func() { d.look(id, firstLook) })() })
	}
	wanted, err := os.OpenFile(filepath.Join(d.Folder(id), wantedFile), os.O_RDONLY|os.O_CREATE, 0o600)
	if err == nil {
		err = errors.Join(lockfile.TryShared(wanted), w.watch.add(id, filepath.Join(d.Folder(id), lockFile)))
	}
	if err != nil {
		w.watch.remove(id)
		_ = wanted.Close() // only locked, if it was opened
		return err
	}
	w.waiting[id] = &wait{wanted, free}
	go recovery.Func(d.ctx, func() { d.look(id, lastLook) })() // it may have been released before
	return nil
}

// Forget ends the wait for an identity, if there is one.
func (d *Dir) Forget(id string) { d.waits.end(id) }

// end takes a wait out; nil if there is none.
func (w *waits) end(id string) *wait {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.waiting[id]
	if one != nil {
		delete(w.waiting, id)
		w.watch.remove(id)
		_ = one.wanted.Close() // only locked
	}
	return one
}

// look calls free if the lock is available, and checks again later if it is not.
func (d *Dir) look(id string, again time.Duration) {
	d.waits.mu.Lock()
	waited := d.waits.waiting[id] != nil
	d.waits.mu.Unlock()
	if !waited {
		return
	}
	if isHeld(filepath.Join(d.Folder(id), lockFile)) {
		if again < lastLook {
			time.AfterFunc(again, recovery.Func(d.ctx, func() { d.look(id, 2*again) }))
		}
		return
	}
	if one := d.waits.end(id); one != nil {
		one.free()
	}
}

// isHeld opens the file only to read: watches report the processes that wrote.
func isHeld(lock string) bool {
	f, err := os.Open(lock)
	if err != nil {
		return false // deleted, or an error that Take reports
	}
	defer func() { _ = f.Close() }() // only locked
	return errors.Is(lockfile.TryShared(f), lockfile.ErrHeld)
}

func (w *waits) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for id, one := range w.waiting {
		_ = one.wanted.Close() // only locked
		delete(w.waiting, id)
	}
	if w.watch != nil {
		w.watch.close()
	}
}
