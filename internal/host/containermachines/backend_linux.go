// SPDX-License-Identifier: Apache-2.0

package containermachines

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/host/containermachines/seed"
	"github.com/capstan-dev/capstan/internal/host/containers"
	"github.com/capstan-dev/capstan/internal/kit/filetree"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// Launcher runs containers, as *containers.Launcher does.
type Launcher interface {
	Create(ctx context.Context, want containers.Spec) error
	Start(ctx context.Context, name string) error
	Remove(ctx context.Context, name string) error
	Inspect(name string) (containers.Status, error)
	List() ([]containers.Status, error)
	Changes(ctx context.Context) <-chan string
	Exec(ctx context.Context, name string, args []string, s containers.Streams) (int, error)
	ReadFile(name, path string, limit int64) ([]byte, error)
	Watch(ctx context.Context, name, path string) (<-chan struct{}, error)
	CheckNetwork(want containers.Network) ([]containers.Problem, error)
	EnsureNetwork(ctx context.Context, want containers.Network) error
	RemoveNetwork(ctx context.Context, name string) error
	Sweep(ctx context.Context) error
}

// Image is a node image of one version of Kubernetes.
type Image struct {
	ID      string
	Version string
	Root    string // read-only
	Var     string // the template of /var
	// Node returns the files that make a node of a Debian: the paths of their contents,
	// by their names in the image.
	Node func() (map[string]string, error)
	// MakeVar creates a folder, which must not exist, as the /var of a machine.
	MakeVar func(dir string) error
	// Use and Release record that a machine needs the image, and that it no longer
	// does; both may be repeated.
	Use, Release func(machine string) error
}

// Images are the node images of the host. Find takes a version or an ID; if the
// image is missing, its error has the remedy.
type Images interface {
	Find(wanted string) (Image, error)
}

// Endpoint is where the API server of a cluster is reached.
type Endpoint interface {
	SetMembers(now []netip.AddrPort)
	Close(ctx context.Context) error
}

// Options are what a Backend needs. All but Clock, Room and Log are required.
type Options struct {
	// Dir keeps all state; it is created if it is missing.
	Dir string
	// Launcher and Images are of the same host.
	Launcher Launcher
	Images   Images
	// Host is what machines must know about this host.
	Host seed.Host
	// Taken are the networks that the host has now.
	Taken func() ([]netip.Prefix, error)
	// Listen opens an endpoint; after an error that is syscall.EADDRINUSE another
	// port is tried.
	Listen func(at netip.AddrPort) (Endpoint, error)
	// Clock measures when bootstrap data started, and how long it runs; nil is the
	// real one.
	Clock clock.WithDelayedExecution
	// Room returns why so many further instances of inotify are not available, and
	// the remedy; nil means that they always are.
	Room func(instances int) error
	// Log receives what happens without a caller.
	Log logr.Logger
}

const (
	// networkName is that of the one network that all machines share.
	networkName = "machines"
	// firstPort is the endpoint's, and each API server's.
	firstPort = 6443
	// closing is how long an endpoint waits for its connections at the end.
	closing = 500 * time.Millisecond
	// bootTimeout is how long bootstrap data may run. All that kubeadm waits for takes
	// less than 15 minutes by default; as much is left for the other commands.
	bootTimeout = 30 * time.Minute
)

// Backend is the container machines of one host.
type Backend struct {
	o        Options
	machines localinfra.Hub // that changed
	freed    localinfra.Hub // clusters; there are none: no other plane can run them
	ctx      context.Context
	cancel   context.CancelFunc
	running  localinfra.Owned

	mu       sync.Mutex // guards all below
	subnet   netip.Prefix
	clusters map[localinfra.ID]*cluster
	byName   map[string]*machine // by container
	closed   bool
}

// cluster is one cluster.
type cluster struct {
	clusterRecord
	endpoint Endpoint // nil until it is requested in this process
}

// machine is one machine.
type machine struct {
	name   string      // of its container
	coming atomic.Bool // it was started, and is no node yet

	mu sync.Mutex // guards all below; taken before that of the Backend
	machineRecord
	watched func() // ends the watch of its bootstrap; nil if there is none
	ran     bool   // its container was seen to run, or was started, in this process
	gone    bool
	update  *update // of its Kubernetes; nil if none was requested in this process
}

// New finds what was created before. What runs continues; what belongs to nothing
// is removed.
func New(ctx context.Context, o Options) (*Backend, error) {
	if o.Dir == "" || o.Launcher == nil || o.Images == nil || o.Taken == nil || o.Listen == nil {
		return nil, errors.New("containermachines: Dir, Launcher, Images, Taken and Listen are required")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	b := &Backend{o: o}
	for _, dir := range []string{o.Dir, filepath.Join(o.Dir, clustersDir), filepath.Join(o.Dir, machinesDir)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("open the container machines: %w", err)
		}
	}
	if err := b.find(ctx); err != nil {
		return nil, fmt.Errorf("open the container machines in %s: %w", o.Dir, err)
	}
	b.ctx, b.cancel = context.WithCancel(context.WithoutCancel(ctx))
	changes := o.Launcher.Changes(b.ctx)
	b.running.Start(func() { b.follow(changes) })
	return b, nil
}

// find reads what is kept, and removes what an interruption has left.
func (b *Backend) find(ctx context.Context) (err error) {
	var subnet subnetRecord
	if _, err := readJSON(filepath.Join(b.o.Dir, subnetFile), &subnet); err != nil {
		return err
	}
	b.subnet = subnet.Subnet
	if b.clusters, err = b.readClusters(); err != nil {
		return err
	}
	if b.byName, err = b.readMachines(); err != nil {
		return err
	}
	running, err := b.o.Launcher.List()
	if err != nil {
		return err
	}
	for _, s := range running {
		m := b.byName[s.Spec.Name]
		if m == nil {
			b.o.Log.Info("Removing a container that belongs to no machine", "container", s.Spec.Name)
			if err := b.o.Launcher.Remove(ctx, s.Spec.Name); err != nil {
				return err
			}
			continue
		}
		m.ran = s.State == containers.Running || s.State == containers.Starting
	}
	entries, err := os.ReadDir(filepath.Join(b.o.Dir, machinesDir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if b.byName[e.Name()] == nil {
			b.discard(e.Name())
		}
	}
	return b.o.Launcher.Sweep(ctx)
}

// discard removes the folder of a machine, or leaves it under another name: its files are
// of no use any more, and must not keep other machines from running.
func (b *Backend) discard(name string) {
	if err := filetree.Discard(b.folder(name)); err != nil {
		b.o.Log.Error(err, "Leaving files of a machine", "container", name)
	}
}

// Close ends the endpoints. Machines run on.
func (b *Backend) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	var open []Endpoint
	for _, c := range b.clusters {
		if c.endpoint != nil {
			open = append(open, c.endpoint)
		}
	}
	b.mu.Unlock()
	b.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	var all sync.WaitGroup
	errs := make([]error, len(open))
	for i, e := range open {
		all.Go(func() { errs[i] = recovery.Call(ctx, func() error { return e.Close(ctx) }) })
	}
	all.Wait()
	b.running.End()
	b.machines.Close()
	b.freed.Close()
	return errors.Join(errs...)
}

// follow publishes the machines whose containers started or ended without a caller.
func (b *Backend) follow(changes <-chan string) {
	for {
		select {
		case name, ok := <-changes:
			if !ok {
				return
			}
			b.notify(name)
		case <-b.ctx.Done():
			return
		}
	}
}

func (b *Backend) notify(container string) {
	b.mu.Lock()
	m := b.byName[container]
	b.mu.Unlock()
	if m != nil {
		b.machines.Publish(m.key())
	}
}

// MachineChanges implements localinfra.Backend.
func (b *Backend) MachineChanges(ctx context.Context) <-chan types.NamespacedName {
	return b.machines.Subscribe(ctx)
}

// ClusterChanges implements localinfra.Backend.
func (b *Backend) ClusterChanges(ctx context.Context) <-chan types.NamespacedName {
	return b.freed.Subscribe(ctx)
}

// readClusters reads what is kept of clusters, by identity.
func (b *Backend) readClusters() (map[localinfra.ID]*cluster, error) {
	names, err := filepath.Glob(filepath.Join(b.o.Dir, clustersDir, "*.json"))
	if err != nil {
		return nil, err
	}
	all := map[localinfra.ID]*cluster{}
	for _, name := range names {
		c := &cluster{}
		if _, err := readJSON(name, &c.clusterRecord); err != nil {
			return nil, err
		}
		all[c.ID] = c
	}
	return all, nil
}

// readMachines reads the records of machines, by the names of their containers. A
// folder without a record is of a machine whose creation or removal was
// interrupted.
func (b *Backend) readMachines() (map[string]*machine, error) {
	entries, err := os.ReadDir(filepath.Join(b.o.Dir, machinesDir))
	if err != nil {
		return nil, err
	}
	all := map[string]*machine{}
	for _, e := range entries {
		m := &machine{name: e.Name()}
		found, err := readJSON(filepath.Join(b.folder(e.Name()), machineFile), &m.machineRecord)
		if err != nil {
			return nil, err
		}
		if found {
			all[m.name] = m
		}
	}
	return all, nil
}

func (b *Backend) folder(name string) string { return filepath.Join(b.o.Dir, machinesDir, name) }

func (b *Backend) clusterFile(id localinfra.ID) string {
	return filepath.Join(b.o.Dir, clustersDir, filepath.Base(string(id))+".json")
}

// keep writes what is kept of a machine. Called with its lock.
func (b *Backend) keep(m *machine) error {
	if err := writeJSON(filepath.Join(b.folder(m.name), machineFile), m.machineRecord); err != nil {
		return fmt.Errorf("keep how far the machine is: %w", err)
	}
	return nil
}
