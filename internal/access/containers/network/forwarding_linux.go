// SPDX-License-Identifier: Apache-2.0

package network

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/access/containers/supervisor"
)

// Forwarding is the setting of the host that lets packets pass from one link to
// another. It is one for all folders of the host, so those that need it are
// noted in a place that all of them know, another one after each boot, as that resets
// the setting: the first notes what it was, and the last puts it back.
type Forwarding struct {
	// Dir is that place.
	Dir string
	// File is the setting's.
	File string
}

// HostForwarding is the setting of the network namespace of this process.
func HostForwarding() (Forwarding, error) {
	var ns unix.Stat_t
	if err := unix.Stat("/proc/self/ns/net", &ns); err != nil {
		return Forwarding{}, fmt.Errorf("find the network namespace: %w", err)
	}
	boot, err := supervisor.HostBoot() // a boot resets it, and /run is not emptied everywhere
	if err != nil {
		return Forwarding{}, err
	}
	return Forwarding{Dir: fmt.Sprintf("/run/capstan/forwarding-%s-%d", boot, ns.Ino), File: "/proc/sys/net/ipv4/ip_forward"}, nil
}

const (
	before = ".before" // what the setting was
	locked = ".lock"
)

// Need sets it for a folder with an identity, in whose Dir the file identity says
// so.
func (f Forwarding) Need(identity, folder string) error {
	return f.exclusively(func() error {
		note := filepath.Join(f.Dir, before)
		if _, err := os.Stat(note); errors.Is(err, fs.ErrNotExist) {
			was, err := os.ReadFile(f.File)
			if err == nil {
				err = os.WriteFile(note, was, 0o600)
			}
			if err != nil {
				return err
			}
		} else if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(f.Dir, identity), []byte(folder), 0o600); err != nil {
			return err
		}
		is, err := os.ReadFile(f.File)
		if err != nil || strings.TrimSpace(string(is)) == "1" { // writing it resets other settings of the links
			return err
		}
		return os.WriteFile(f.File, []byte("1"), 0)
	})
}

// Leave says that a folder needs it no longer. What was before is put back when
// no other does.
func (f Forwarding) Leave(identity string) error {
	if _, err := os.Stat(f.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := f.exclusively(func() error {
		if err := os.Remove(filepath.Join(f.Dir, identity)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		needed, err := f.needed()
		if err != nil || needed {
			return err
		}
		note := filepath.Join(f.Dir, before)
		was, err := os.ReadFile(note)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		is, err := os.ReadFile(f.File)
		if err == nil && !bytes.Equal(is, was) {
			err = os.WriteFile(f.File, bytes.TrimSpace(was), 0)
		}
		if err != nil {
			return err
		}
		// With the lock goes the folder; who waits for it makes another.
		return errors.Join(os.Remove(note), os.Remove(filepath.Join(f.Dir, locked)), os.Remove(f.Dir))
	})
	return err
}

// needed reports whether some folder that still exists needs it.
func (f Forwarding) needed() (bool, error) {
	entries, err := os.ReadDir(f.Dir)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		folder, err := os.ReadFile(filepath.Join(f.Dir, e.Name()))
		if err != nil {
			return false, err
		}
		id, err := os.ReadFile(filepath.Join(string(folder), "identity"))
		if err == nil && strings.TrimSpace(string(id)) == e.Name() {
			return true, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
			return true, nil // nobody knows: let it be
		}
		if err := os.Remove(filepath.Join(f.Dir, e.Name())); err != nil { // its folder is gone
			return false, err
		}
	}
	return false, nil
}

// exclusively does something while no other process does.
func (f Forwarding) exclusively(do func() error) error {
	lock, err := f.lock()
	if err != nil {
		return fmt.Errorf("note who needs forwarding: %w", err)
	}
	defer func() { _ = lock.Close() }() // only locked
	if err := do(); err != nil {
		return fmt.Errorf("set forwarding of packets: %w", err)
	}
	return nil
}

// lock takes the lock of the place, which whoever had it before may have removed
// meanwhile.
func (f Forwarding) lock() (*os.File, error) {
	for {
		if err := os.MkdirAll(f.Dir, 0o755); err != nil {
			return nil, err
		}
		lock, err := os.OpenFile(filepath.Join(f.Dir, locked), os.O_RDWR|os.O_CREATE, 0o600)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
		have, serr := lock.Stat()
		is, _ := os.Stat(lock.Name()) // nil if it is gone
		if err = errors.Join(err, serr); err == nil && os.SameFile(have, is) {
			return lock, nil
		}
		if err = errors.Join(err, lock.Close()); err != nil {
			return nil, err
		}
	}
}
