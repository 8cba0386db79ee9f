// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/capstan-dev/capstan/internal/host/cgroups"
	"github.com/capstan-dev/capstan/internal/host/containers/network"
	"github.com/capstan-dev/capstan/internal/host/containers/supervisor"
	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
	"github.com/capstan-dev/capstan/internal/kit/lockfile"
)

// Launcher runs the containers of one folder. Its methods are safe for concurrent
// use.
type Launcher struct {
	dir        string
	options    Options
	identity   string
	lock       *os.File
	groups     cgroups.Host
	scopes     bool // systemd of the host assigns control groups
	names      network.Names
	forwarding network.Forwarding
	hostBoot   string

	following context.Context // until Close
	close     context.CancelFunc
	followers sync.WaitGroup
	watches   watches

	mu        sync.Mutex               // guards the fields below
	busy      map[string]chan struct{} // names of containers that a goroutine is working on
	followed  map[string]bool
	listeners map[*listener]bool
	closed    bool

	networks sync.Mutex // held while networks are changed
	// base is held while the group above all containers may be created or removed.
	base sync.Mutex

	// reached is called at each step that leaves something behind; tests end the
	// process there.
	reached func(step string)
}

// Open opens a folder, creating it if needed, and finds the containers that an
// earlier process left running. It returns a HeldError if another process has the
// folder open.
func Open(dir string, o Options) (*Launcher, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	l := &Launcher{
		dir: dir, options: o.complete(), reached: func(string) {},
		busy: map[string]chan struct{}{}, followed: map[string]bool{}, listeners: map[*listener]bool{},
	}
	if err := l.open(); err != nil {
		if l.lock != nil {
			err = errors.Join(err, lockfile.Unlock(l.lock))
		}
		if _, held := errors.AsType[*HeldError](err); held {
			return nil, err
		}
		return nil, fmt.Errorf("open containers of %s: %w", dir, err)
	}
	l.following, l.close = context.WithCancel(context.Background())
	names, err := l.containers()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open containers of %s: %w", dir, err), l.Close())
	}
	for _, name := range names {
		if alive, err := l.alive(name); err == nil && alive {
			l.follow(name)
		}
	}
	return l, nil
}

func (l *Launcher) open() error {
	if os.Geteuid() != 0 {
		return errors.New("containers need root: run this as root, or choose machines of another kind")
	}
	for _, d := range []string{l.dir, filepath.Join(l.dir, containersDir), filepath.Join(l.dir, networksDir)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
	}
	var err error
	if l.lock, err = lockfile.TryLock(filepath.Join(l.dir, lockFile)); errors.Is(err, lockfile.ErrHeld) {
		return &HeldError{l.dir}
	} else if err != nil {
		return err
	}
	if l.identity, err = readIdentity(l.dir); err != nil {
		return err
	}
	l.names = network.Names{Identity: l.identity}
	if l.groups, err = cgroups.Detect(); err != nil {
		return err
	}
	_, systemd := os.Stat("/run/systemd/system") // the check of sd_booted(3)
	l.scopes = l.groups.Unified && systemd == nil
	if l.forwarding, err = network.HostForwarding(); err != nil {
		return err
	}
	l.hostBoot, err = supervisor.HostBoot()
	return err
}

// readIdentity reads the identity that distinguishes this folder from others, or
// chooses one.
func readIdentity(dir string) (string, error) {
	file := filepath.Join(dir, identityFile)
	text, err := os.ReadFile(file)
	if err == nil {
		id := strings.TrimSpace(string(text))
		if b, err := hex.DecodeString(id); err != nil || len(b) != network.IdentityBytes/2 {
			return "", fmt.Errorf("%s holds %q, which is no identity: remove the folder when nothing of it runs", file, id)
		}
		return id, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	b := make([]byte, network.IdentityBytes/2)
	if _, err := rand.Read(b); err != nil {
		return "", err
	}
	id := hex.EncodeToString(b)
	return id, atomicfile.Write(file, []byte(id+"\n"))
}

// Close releases the folder. Containers keep running.
func (l *Launcher) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.close()
	l.followers.Wait()
	return errors.Join(l.watches.close(), lockfile.Unlock(l.lock))
}

// Create creates everything that Start needs for a container; it starts nothing. It
// succeeds if the container exists with the same spec, and returns ErrExists if it
// exists with another one.
func (l *Launcher) Create(ctx context.Context, want Spec) error {
	if err := want.Validate(); err != nil {
		return fmt.Errorf("create container %s: %w", want.Name, err)
	}
	done, err := l.work(ctx, want.Name)
	if err != nil {
		return err
	}
	defer done()
	have, err := l.spec(want.Name)
	switch {
	case err == nil && sameSpec(have, want):
		return nil
	case err == nil:
		err = ErrExists
	case errors.Is(err, ErrNotFound):
		err = l.make(want)
	}
	if err != nil {
		return fmt.Errorf("create container %s: %w", want.Name, err)
	}
	return nil
}

// sameSpec compares specs as their files would: an empty map is the same as nil.
func sameSpec(a, b Spec) bool {
	textA, errA := json.Marshal(a)
	textB, errB := json.Marshal(b)
	return errA == nil && errB == nil && reflect.DeepEqual(textA, textB)
}

// make creates the folder of a container under a temporary name, so that it exists
// completely or not at all.
func (l *Launcher) make(want Spec) (err error) {
	made := filepath.Join(l.dir, containersDir, newPrefix+want.Name)
	l.discard(made) // left by an interrupted process
	defer func() {
		if err != nil {
			l.discard(made)
		}
	}()
	for _, d := range []string{"", workDir, rootDir, shadowsDir, upperDir} {
		if err := os.MkdirAll(filepath.Join(made, d), 0o700); err != nil {
			return err
		}
	}
	// The upper layer is the root itself, which every user in it may enter.
	if err := os.Chmod(filepath.Join(made, upperDir), 0o755); err != nil {
		return err
	}
	l.reached("folder made")
	for i, p := range shadowPaths(want) {
		file := filepath.Join(made, shadowsDir, strconv.Itoa(i))
		// Every user in it may read them, regardless of the umask here.
		if err := errors.Join(os.WriteFile(file, want.Shadows[p], 0o644), os.Chmod(file, 0o644)); err != nil {
			return err
		}
	}
	text, err := json.Marshal(want)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(made, specFile), text); err != nil {
		return err
	}
	l.reached("spec written")
	if err := os.Rename(made, l.folder(want.Name)); err != nil {
		return err
	}
	l.reached("folder renamed")
	return atomicfile.SyncDir(filepath.Join(l.dir, containersDir))
}

func (l *Launcher) folder(name string) string { return filepath.Join(l.dir, containersDir, name) }

// spec reads the spec of a container.
func (l *Launcher) spec(name string) (Spec, error) {
	var s Spec
	if !label.MatchString(name) {
		return s, ErrNotFound
	}
	text, err := os.ReadFile(filepath.Join(l.folder(name), specFile))
	if errors.Is(err, fs.ErrNotExist) {
		return s, ErrNotFound
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return s, fmt.Errorf("read %s: %w: remove the container", filepath.Join(l.folder(name), specFile), err)
	}
	return s, nil
}

// containers returns the names of all containers.
func (l *Launcher) containers() (names []string, err error) {
	entries, err := os.ReadDir(filepath.Join(l.dir, containersDir))
	for _, e := range entries {
		if e.IsDir() && label.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// alive reports whether a container has a supervisor.
func (l *Launcher) alive(name string) (bool, error) {
	return supervisor.Alive(filepath.Join(l.folder(name), supervisor.LockFile))
}

// Inspect returns the spec and the current state of a container.
func (l *Launcher) Inspect(name string) (Status, error) {
	spec, err := l.spec(name)
	if err != nil {
		return Status{}, fmt.Errorf("inspect container %s: %w", name, err)
	}
	alive, err := l.alive(name)
	if err != nil {
		return Status{}, fmt.Errorf("inspect container %s: %w", name, err)
	}
	// A supervisor writes its last state before it exits.
	state, err := supervisor.ReadState(l.folder(name))
	if err != nil && !alive {
		state = supervisor.State{Ended: true, Message: err.Error()}
	} else if err != nil {
		return Status{}, fmt.Errorf("inspect container %s: %w", name, err)
	}
	return status(spec, state, alive, l.hostBoot), nil
}

// List returns the status of all containers, in the order of their names.
func (l *Launcher) List() ([]Status, error) {
	names, err := l.containers()
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	var all []Status
	for _, name := range names {
		s, err := l.Inspect(name)
		if errors.Is(err, ErrNotFound) { // it was removed meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// work reserves a container for the calling goroutine until done is called.
func (l *Launcher) work(ctx context.Context, name string) (done func(), err error) {
	for {
		l.mu.Lock()
		other := l.busy[name]
		if l.closed {
			l.mu.Unlock()
			return nil, fmt.Errorf("container %s: the launcher is closed", name)
		}
		if other == nil {
			mine := make(chan struct{})
			l.busy[name] = mine
			l.mu.Unlock()
			return func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				delete(l.busy, name)
				close(mine)
			}, nil
		}
		l.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, fmt.Errorf("container %s: wait for another change of it: %w", name, context.Cause(ctx))
		}
	}
}
