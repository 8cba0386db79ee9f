// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/host/cgroups"
	"github.com/capstan-dev/capstan/internal/kit/lockfile"
)

// Host runs the sandboxes of one plane on this machine.
type Host struct {
	options  Options
	rootless bool
	lock     *os.File // held while it is open
	group    string   // of all sandboxes; "" without root
	groups   cgroups.Host
	program  string // to be mounted read-only; "" with root
	budget   int64  // processes of all sandboxes

	descriptors descriptors

	mu      sync.Mutex // guards the fields below
	closed  bool
	running map[string]*Sandbox
	taken   map[uint32]bool // ranges of ids
	spent   int64           // part of the budget in use, without root
	first   uint32          // the range to try first
}

const (
	// A Pod's ids are a range of ids of the host: 65536, the usual range of images,
	// above those that other tools assign, up to half of all.
	idsPerPod, firstID, ranges = 1 << 16, 1 << 20, 1 << 15
	// identityBytes distinguish the groups of planes.
	identityBytes = 8
)

// Open opens a folder of the plane, which is created if it does not exist, and
// removes what an earlier process left. Only one process can have it open.
func Open(dir string, o Options) (_ *Host, err error) {
	o.Connections, o.Kept = cmp.Or(o.Connections, defaultConnections), cmp.Or(o.Kept, defaultKept)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	h := &Host{options: o, rootless: os.Geteuid() != 0, running: map[string]*Sandbox{}, taken: map[uint32]bool{}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the folder of sandboxes: %w", err)
	}
	h.lock, err = lockfile.TryLock(filepath.Join(dir, "lock"))
	if errors.Is(err, lockfile.ErrHeld) {
		return nil, fmt.Errorf("lock %s: another plane runs there: stop it, or use another folder: %w", dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open the folder of sandboxes: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lockfile.Unlock(h.lock))
		}
	}()
	id, err := identity(filepath.Join(dir, "identity"))
	if err != nil {
		return nil, err
	}
	h.first = uint32(id[0])<<8 | uint32(id[1])
	if h.descriptors.all = o.Descriptors; o.Descriptors == 0 {
		var files unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
			return nil, fmt.Errorf("read the limit of descriptors: %w", os.NewSyscallError("getrlimit", err))
		}
		h.descriptors.all = int(min(files.Cur, math.MaxInt32)) / descriptorShare // it may be RLIM_INFINITY
	}
	if h.budget, err = processBudget(h.rootless); err != nil {
		return nil, err
	}
	if h.rootless {
		h.program, err = os.Executable()
		return h, err
	}
	if h.groups, err = cgroups.Detect(); err != nil {
		return nil, err
	}
	h.group = "/" + cgroups.Prefix + "-pods-" + hex.EncodeToString(id)
	return h, h.sweep()
}

// identity returns the identity that distinguishes the groups of this folder from
// others.
func identity(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if id, bad := hex.DecodeString(strings.TrimSpace(string(text))); err == nil && bad == nil && len(id) == identityBytes {
		return id, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the identity of sandboxes: %w", err)
	}
	id := make([]byte, identityBytes)
	if _, err := rand.Read(id); err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, []byte(hex.EncodeToString(id)+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("write the identity of sandboxes: %w", err)
	}
	return id, nil
}

// sweep ends the processes that an earlier process left, and removes their groups.
func (h *Host) sweep() error {
	if h.group == "" {
		return nil
	}
	if err := h.groups.Remove(h.group); err != nil {
		return fmt.Errorf("remove what an earlier plane left: %w", err)
	}
	return nil
}

// Rootless reports whether sandboxes have one user id, and no limits of memory and
// processors.
func (h *Host) Rootless() bool { return h.rootless }

// Find returns a sandbox by its name; nil if not found.
func (h *Host) Find(name string) *Sandbox {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.running[name]
}

// Close ends all sandboxes immediately and releases the folder. It may be called
// again.
func (h *Host) Close() error {
	h.mu.Lock()
	closed := h.closed
	h.closed = true
	var all []*Sandbox
	for _, s := range h.running {
		all = append(all, s)
	}
	h.mu.Unlock()
	if closed {
		return nil
	}
	var errs []error
	for _, s := range all {
		errs = append(errs, s.Stop(context.Background(), 0))
	}
	return errors.Join(errors.Join(errs...), h.sweep(), h.lock.Close())
}

// take reserves a name and a range of ids.
func (h *Host) take(s *Sandbox) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return errors.New("the plane stops")
	}
	if h.running[s.spec.Name] != nil {
		return errors.New("there is one of this name: stop it first")
	}
	free := h.budget
	if h.rootless { // with root a control group limits all
		free -= h.spent
	}
	limit, err := limitOfPod(s.spec.PIDs, free)
	if err != nil {
		return err
	}
	if err := h.descriptors.take(s, ofSandbox); err != nil {
		return err
	}
	n := h.first % ranges
	for ; h.taken[n]; n = (n + 1) % ranges {
		if len(h.taken) == ranges {
			h.descriptors.give(s, ofSandbox)
			return fmt.Errorf("all %d ranges of user ids are taken", ranges)
		}
	}
	h.taken[n], h.running[s.spec.Name], s.ids = true, s, n
	s.spec.PIDs, h.spent = limit, h.spent+limit
	return nil
}

func (h *Host) release(s *Sandbox) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.running, s.spec.Name)
	delete(h.taken, s.ids)
	h.spent -= s.spec.PIDs
	h.descriptors.give(s, ofSandbox)
}

// descriptors are the descriptors of the plane that Pods may use.
type descriptors struct {
	all int

	mu    sync.Mutex // guards taken, and Sandbox.descriptors
	taken int
}

// take reserves n more for a Pod. A Pod gets at most half of those that the others
// leave, so that the next one can start.
func (d *descriptors) take(s *Sandbox, n int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if free := d.all - (d.taken - s.descriptors); s.descriptors+n > free/2 {
		return fmt.Errorf("the Pod has %d of %d descriptors that are left for Pods, of %d for all of them, and at most half of that: close connections, run fewer Pods, or raise the limit of the plane (ulimit -n)", s.descriptors, max(free, 0), d.all)
	}
	s.descriptors, d.taken = s.descriptors+n, d.taken+n
	return nil
}

// give returns n reserved descriptors.
func (d *descriptors) give(s *Sandbox, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.descriptors, d.taken = s.descriptors-n, d.taken-n
}
