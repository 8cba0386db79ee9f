// SPDX-License-Identifier: Apache-2.0

// Package datadir is the data directory of a management plane: the paths of its
// files, its lock, and the refusal to let two processes share it.
package datadir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/internal/kit/lockfile"
)

// Dir is the path of a data directory.
type Dir string

// Kubeconfig is the administrator's kubeconfig.
func (d Dir) Kubeconfig() string { return filepath.Join(string(d), "kubeconfig") }

// PKI is the folder of certificates and keys.
func (d Dir) PKI() string { return filepath.Join(string(d), "pki") }

// Etcd is the folder of the embedded etcd's data.
func (d Dir) Etcd() string { return filepath.Join(string(d), "etcd") }

// Simulated is the folder of links to the simulated clusters that the plane runs.
// Their targets belong to the host.
func (d Dir) Simulated() string { return filepath.Join(string(d), "simulated") }

// Images is the folder of the images of containers that the plane runs.
func (d Dir) Images() string { return filepath.Join(string(d), "images") }

// Registries is the configuration file for image registries. It is optional and
// belongs to the user; no code writes it.
func (d Dir) Registries() string { return filepath.Join(string(d), "registries.yaml") }

// Log is the file that receives the log of a plane.
func (d Dir) Log() string { return filepath.Join(string(d), "capstan.log") }

// Decisions is the file of the controllers' recorded decisions.
func (d Dir) Decisions() string { return filepath.Join(string(d), "decisions.jsonl") }

// Member is the name that the plane has among those that share its store.
func (d Dir) Member() string { return filepath.Join(string(d), "member") }

// Join is what another plane needs to share the store of this one.
func (d Dir) Join() string { return filepath.Join(string(d), "join") }

func (d Dir) lock() string { return filepath.Join(string(d), "lock") }

// Holder describes the process that holds a data directory.
type Holder struct {
	PID     int       `json:"pid"`
	Version string    `json:"version"`
	Since   time.Time `json:"since"`
	// Address of the API server; empty while the plane is starting.
	Address string `json:"address,omitempty"`
	// Ready is when everything answered; zero while the plane is starting.
	Ready time.Time `json:"ready,omitzero"`
	// Providers are the controllers that run.
	Providers []string `json:"providers,omitempty"`
	// Diagnostics are the addresses at which metrics and profiles are served, by name.
	Diagnostics map[string]string `json:"diagnostics,omitempty"`
	// EtcdServers are those of an external etcd; empty for the embedded one.
	EtcdServers []string `json:"etcdServers,omitempty"`
	// EtcdSocket is where the embedded etcd answers; empty before it does.
	EtcdSocket string `json:"etcdSocket,omitempty"`
	// Flags are those that it was started with, by name.
	Flags map[string]string `json:"flags,omitempty"`
	// Problem is what ended the plane from within; it stays until the next
	// start.
	Problem string `json:"problem,omitempty"`
}

// HeldError means that another process holds the data directory.
type HeldError struct {
	Dir    Dir
	Holder Holder
}

func (e *HeldError) Error() string {
	by := "another process"
	if e.Holder.PID != 0 {
		by = fmt.Sprintf("process %d since %s", e.Holder.PID, e.Holder.Since.Format(time.RFC3339))
	}
	return fmt.Sprintf("data directory %s is held by %s: stop it with \"capstan down --data-dir %s\", or use another --data-dir", e.Dir, by, e.Dir)
}

// Lock is a held data directory.
type Lock struct {
	dir  Dir
	file *os.File
}

// Make creates the directory if it does not exist, and refuses one that another
// user may write to: such a user could choose what the plane trusts. Nothing may be
// read from it or written to it before.
func Make(d Dir) error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	info, err := os.Stat(string(d))
	if err != nil {
		return fmt.Errorf("check data directory: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("data directory %s has mode %04o, so others may write to it: check its content, then \"chmod go-w %[1]s\", or use another --data-dir", d, mode)
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; owner != 0 && int(owner) != os.Geteuid() {
		return fmt.Errorf("data directory %s belongs to user %d, who may write to it: start the plane as that user, or use another --data-dir", d, owner)
	}
	return nil
}

// Acquire creates the directory if it does not exist and takes its lock, or returns
// a *HeldError immediately. The kernel releases the lock when the process ends,
// however it ends.
func Acquire(d Dir, h Holder) (*Lock, error) {
	if err := Make(d); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(d.lock(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock of data directory: %w", err)
	}
	if err := tryLock(f); err != nil {
		defer func() { _ = f.Close() }()
		if !errors.Is(err, lockfile.ErrHeld) {
			return nil, fmt.Errorf("lock data directory %s: %w", d, err)
		}
		holder, _ := read(d) // a lock whose holder cannot be read is held anyway
		return nil, &HeldError{d, holder}
	}
	l := &Lock{d, f}
	if err := l.Describe(h); err != nil {
		return nil, errors.Join(err, l.Release())
	}
	return l, nil
}

// tryLock tries for a quarter of a second, because Running holds the lock for
// an instant to learn whether it is free.
func tryLock(f *os.File) (err error) {
	for range 25 {
		if err = lockfile.Try(f); !errors.Is(err, lockfile.ErrHeld) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// Describe replaces the holder's description.
func (l *Lock) Describe(h Holder) error {
	b, err := json.Marshal(h)
	if err != nil {
		return err
	}
	// In place, not by rename: a new file would not carry the lock.
	if _, err := l.file.WriteAt(append(b, '\n'), 0); err != nil {
		return fmt.Errorf("write lock of data directory %s: %w", l.dir, err)
	}
	if err := l.file.Truncate(int64(len(b) + 1)); err != nil {
		return fmt.Errorf("write lock of data directory %s: %w", l.dir, err)
	}
	return nil
}

// Release gives the directory up. The file stays, so that no process can lock a
// file that is about to be deleted.
func (l *Lock) Release() error { return lockfile.Unlock(l.file) }

// Running returns the holder of the directory, or the description of the last one
// if there is none, and whether there is one.
func Running(d Dir) (Holder, bool, error) {
	f, err := os.Open(d.lock())
	if errors.Is(err, fs.ErrNotExist) {
		return Holder{}, false, nil
	}
	if err != nil {
		return Holder{}, false, fmt.Errorf("open lock of data directory: %w", err)
	}
	defer func() { _ = lockfile.Unlock(f) }()
	switch err := lockfile.TryShared(f); {
	case err == nil:
		last, _ := read(d) // an unreadable description is not needed
		return last, false, nil
	case !errors.Is(err, lockfile.ErrHeld):
		return Holder{}, false, fmt.Errorf("check the lock of data directory %s: %w", d, err)
	}
	h, err := read(d)
	return h, true, err
}

func read(d Dir) (Holder, error) {
	var h Holder
	b, err := os.ReadFile(d.lock())
	if err != nil {
		return h, fmt.Errorf("read lock of data directory: %w", err)
	}
	// The text after the first line is the rest of an older, longer one.
	first, _, _ := bytes.Cut(b, []byte("\n"))
	if err := json.Unmarshal(first, &h); err != nil {
		return h, fmt.Errorf("read lock of data directory %s: %w", d, err)
	}
	return h, nil
}

// Size is the number of bytes on disk of everything in the directory, except folders that
// a Pod closed or nested too deep: they must not keep status from its users.
func Size(d Dir) (int64, error) {
	var n int64
	err := filepath.WalkDir(string(d), func(_ string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENAMETOOLONG) {
			return nil // deleted meanwhile, or hidden
		}
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENAMETOOLONG) {
			return nil
		}
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			n += st.Blocks * 512 // etcd allocates its log ahead: blocks are what the disk lost
			return nil
		}
		n += info.Size()
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("measure data directory %s: %w", d, err)
	}
	return n, nil
}

// CheckPrivate returns an error if others than the owner may use the file or
// folder. A path that does not exist is private.
func CheckPrivate(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("%s has mode %04o, so others may use it: check who could have read it, then chmod %04o %s", path, mode, mode&0o700, path)
	}
	return nil
}
