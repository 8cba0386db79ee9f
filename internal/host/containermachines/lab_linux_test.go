// SPDX-License-Identifier: Apache-2.0

package containermachines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/host/containermachines/seed"
	"github.com/capstan-dev/capstan/internal/host/containers"
)

// launcher simulates containers. It outlives backends, as containers do.
type launcher struct {
	mu        sync.Mutex
	all       map[string]*containers.Status
	files     map[string]string // by container and path
	watches   map[string][]chan struct{}
	changes   chan string
	networks  map[string]containers.Network
	starts    int
	err       error // of Create
	startErr  error
	elsewhere []netip.Prefix // that another link of the host has
	commands  []string       // by the names of their scripts
	failing   string         // the command that fails
	says      string         // what it writes then
}

func newLauncher() *launcher {
	return &launcher{
		all: map[string]*containers.Status{}, files: map[string]string{}, watches: map[string][]chan struct{}{},
		changes: make(chan string, 100), networks: map[string]containers.Network{},
	}
}

func (l *launcher) Create(_ context.Context, want containers.Spec) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := errors.Join(l.err, want.Validate()); err != nil {
		return err
	}
	if l.networks[want.Network.Network].Name == "" {
		return errors.New("there is no such network")
	}
	l.all[want.Name] = &containers.Status{Spec: want, State: containers.Created}
	return nil
}

func (l *launcher) Start(_ context.Context, name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.startErr != nil {
		return l.startErr
	}
	l.all[name].State = containers.Running
	l.starts++
	return nil
}

func (l *launcher) Remove(_ context.Context, name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, name)
	return nil
}

func (l *launcher) Inspect(name string) (containers.Status, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.all[name]; s != nil {
		return *s, nil
	}
	return containers.Status{}, containers.ErrNotFound
}

func (l *launcher) List() (all []containers.Status, _ error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.all {
		all = append(all, *s)
	}
	return all, nil
}

func (l *launcher) Changes(context.Context) <-chan string { return l.changes }

func (l *launcher) Exec(_ context.Context, name string, args []string, s containers.Streams) (int, error) {
	if s.In != nil {
		_, _ = io.Copy(io.Discard, s.In)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all[name] == nil {
		return 0, containers.ErrNotFound
	}
	script := args[3] // after sh -c TEXT
	l.commands = append(l.commands, script)
	if script != l.failing {
		return 0, nil
	}
	_, err := io.WriteString(s.Err, l.says)
	return 1, err
}

// ran are the commands that were run.
func (l *launcher) ran() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.commands)
}

// fails has a command fail.
func (l *launcher) fails(command, says string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failing, l.says = command, says
}

func (l *launcher) ReadFile(name, path string, _ int64) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if text, ok := l.files[name+path]; ok {
		return []byte(text), nil
	}
	return nil, fmt.Errorf("read %s: %w", path, fs.ErrNotExist)
}

func (l *launcher) Watch(_ context.Context, name, path string) (<-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := make(chan struct{}, 1)
	l.watches[name+path] = append(l.watches[name+path], c)
	return c, nil
}

func (l *launcher) CheckNetwork(want containers.Network) (found []containers.Problem, _ error) {
	for _, p := range l.elsewhere {
		if p.Overlaps(want.Address.Masked()) {
			found = append(found, containers.Problem{What: "addresses " + want.Address.Masked().String() + " overlap " + p.String() + ", which link tun0 of this host has"})
		}
	}
	return found, nil
}

func (l *launcher) EnsureNetwork(_ context.Context, want containers.Network) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if had, ok := l.networks[want.Name]; ok && had != want {
		return errors.New("remove it first")
	}
	l.networks[want.Name] = want
	return want.Validate()
}

func (l *launcher) RemoveNetwork(_ context.Context, name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.networks, name)
	return nil
}

func (l *launcher) Sweep(context.Context) error { return nil }

// appears creates a file in the only container, and notifies its watchers.
func (l *launcher) appears(path, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range l.all {
		l.files[name+path] = text
		for _, c := range l.watches[name+path] {
			c <- struct{}{}
		}
	}
}

// ends has all containers end by themselves.
func (l *launcher) ends(code int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, s := range l.all {
		s.State, s.ExitCode = containers.Stopped, code
		l.changes <- name
	}
}

// images is a host with two images.
type images struct {
	at   string // where their layers are
	used map[string]bool
	err  error // of MakeVar
	lost error // of Find, once images are damaged
}

func (i *images) Find(wanted string) (Image, error) {
	if i.lost != nil {
		return Image{}, i.lost
	}
	id, version := "sha256:1", "v1.36.3"
	switch wanted {
	case id, version:
	case "sha256:2", "v1.37.0":
		id, version = "sha256:2", "v1.37.0"
	default:
		return Image{}, fmt.Errorf("there is no node image of %s", wanted)
	}
	return Image{
		ID: id, Version: version, Root: i.at + "/root", Var: i.at + "/var",
		Node:    func() (map[string]string, error) { return map[string]string{}, nil },
		MakeVar: func(dir string) error { return errors.Join(i.err, os.MkdirAll(filepath.Join(dir, "lib"), 0o755)) },
		Use:     func(user string) error { i.used[user] = true; return nil },
		Release: func(user string) error { delete(i.used, user); return nil },
	}, nil
}

// endpoint notes its members.
type endpoint struct {
	at      netip.AddrPort
	members []netip.AddrPort
	closed  bool
}

func (e *endpoint) SetMembers(now []netip.AddrPort) { e.members = now }
func (e *endpoint) Close(context.Context) error     { e.closed = true; return nil }

// lab is a host.
type lab struct {
	t         *testing.T
	dir       string
	launcher  *launcher
	images    *images
	endpoints []*endpoint
	busy      []uint16 // ports of others
	taken     []netip.Prefix
	clock     *testclock.FakeClock
	*Backend
}

// began is when labs start.
var began = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t, dir: t.TempDir(), launcher: newLauncher(), images: &images{at: "/images", used: map[string]bool{}}, clock: testclock.NewFakeClock(began)}
	l.open()
	return l
}

// open starts a process on the host.
func (l *lab) open() {
	l.t.Helper()
	b, err := New(l.t.Context(), Options{
		Dir: l.dir, Launcher: l.launcher, Images: l.images, Host: seed.Host{CgroupV1: true}, Clock: l.clock,
		Taken: func() ([]netip.Prefix, error) { return l.taken, nil },
		Listen: func(at netip.AddrPort) (Endpoint, error) {
			if slices.Contains(l.busy, at.Port()) {
				return nil, errInUse
			}
			e := &endpoint{at: at}
			l.endpoints = append(l.endpoints, e)
			return e, nil
		},
	})
	if err != nil {
		l.t.Fatal(err)
	}
	l.Backend = b
	l.t.Cleanup(func() { _ = b.Close() })
}

// restart ends the process and starts another one.
func (l *lab) restart() {
	l.t.Helper()
	if err := l.Close(); err != nil {
		l.t.Fatal(err)
	}
	l.endpoints = nil
	l.open()
}

var wantCluster = localinfra.Cluster{
	NamespacedName: types.NamespacedName{Namespace: "ns", Name: "demo"}, ID: "c1", UID: "c1",
	Object: types.NamespacedName{Namespace: "ns", Name: "demo-infra"}, Spec: infrav1.LocalClusterSpec{Container: &infrav1.LocalClusterContainer{}},
}

func wantMachine(with ...func(*localinfra.Machine)) localinfra.Machine {
	m := localinfra.Machine{
		NamespacedName: types.NamespacedName{Namespace: "ns", Name: "m0"}, ID: "m0-uid", Cluster: "demo", ClusterID: "c1",
		Version: "v1.36.3", ControlPlane: true, BootstrapData: []byte("#cloud-config\npassword: hunter2\n"), BootstrapFormat: "cloud-config",
		Spec: infrav1.LocalMachineSpec{Container: &infrav1.LocalMachineContainer{MemoryMiB: new(int32(512)), MilliCPU: new(int32(1500))}},
	}
	for _, f := range with {
		f(&m)
	}
	return m
}

// cluster ensures the cluster.
func (l *lab) cluster() string {
	l.t.Helper()
	at, err := l.EnsureCluster(l.t.Context(), wantCluster)
	if err != nil {
		l.t.Fatal(err)
	}
	return at.String()
}

// machine ensures the machine.
func (l *lab) machine(with ...func(*localinfra.Machine)) localinfra.MachineStatus {
	l.t.Helper()
	s, err := l.EnsureMachine(l.t.Context(), wantMachine(with...))
	if err != nil {
		l.t.Fatal(err)
	}
	return s
}

// awaitChange waits until a machine is named.
func awaitChange(t *testing.T, changes <-chan types.NamespacedName) types.NamespacedName {
	t.Helper()
	select {
	case name := <-changes:
		return name
	case <-time.After(30 * time.Second):
		t.Fatal("no subscriber received the change")
	}
	return types.NamespacedName{}
}

// container is the only container.
func (l *lab) container() containers.Status {
	l.t.Helper()
	all, err := l.launcher.List()
	if err != nil || len(all) != 1 {
		l.t.Fatalf("containers %v, %v, want one", all, err)
	}
	return all[0]
}
