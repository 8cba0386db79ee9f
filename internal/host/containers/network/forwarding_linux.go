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

	"github.com/capstan-dev/capstan/internal/host/containers/supervisor"
	"github.com/capstan-dev/capstan/internal/kit/lockfile"
)

// Forwarding is the setting of the host that enables forwarding between links. All
// folders of the host share it, so each that needs it is recorded in a common
// folder. That folder is another one after each boot, which resets the setting. The
// first user records the original value, and the last restores it.
type Forwarding struct {
	// Dir is the common folder.
	Dir string
	// File is the file of the setting.
	File string
}

// HostForwarding returns the setting of the network namespace of this process.
func HostForwarding() (Forwarding, error) {
	var ns unix.Stat_t
	if err := unix.Stat("/proc/self/ns/net", &ns); err != nil {
		return Forwarding{}, fmt.Errorf("find the network namespace: %w", err)
	}
	boot, err := supervisor.HostBoot() // a boot resets the setting, but not every host empties /run
	if err != nil {
		return Forwarding{}, err
	}
	return Forwarding{Dir: fmt.Sprintf("/run/capstan/forwarding-%s-%d", boot, ns.Ino), File: "/proc/sys/net/ipv4/ip_forward"}, nil
}

const (
	before = ".before" // the original value
	locked = ".lock"
)

// Need enables forwarding for a folder with an identity, which the folder's file
// identity contains.
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

// Leave records that a folder no longer needs forwarding. It restores the original
// value when no other folder needs it.
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
		// This also removes the lock file; a process that waits for it creates another.
		return errors.Join(os.Remove(note), os.Remove(filepath.Join(f.Dir, locked)), os.Remove(f.Dir))
	})
	return err
}

// needed reports whether a folder that still exists needs forwarding.
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
			return true, nil // unknown: keep the setting
		}
		if err := os.Remove(filepath.Join(f.Dir, e.Name())); err != nil { // its folder was deleted
			return false, err
		}
	}
	return false, nil
}

// exclusively calls do while no other process holds the lock.
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

// lock takes the lock of the common folder. Its previous holder may have removed
// the file meanwhile.
func (f Forwarding) lock() (*os.File, error) {
	for {
		if err := os.MkdirAll(f.Dir, 0o755); err != nil {
			return nil, err
		}
		lock, err := lockfile.Lock(filepath.Join(f.Dir, locked))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil || lockfile.Current(lock) {
			return lock, err
		}
		if err := lockfile.Unlock(lock); err != nil {
			return nil, err
		}
	}
}
