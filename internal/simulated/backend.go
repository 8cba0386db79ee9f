// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/host"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver"
)

// Options is what a Backend needs.
type Options struct {
	// Dir is where everything is kept. It is made if it is missing, and read
	// and written by nobody else: it holds the clusters' private keys.
	Dir string
	// Clock is the real one if nil.
	Clock clock.WithDelayedExecution
	// Log is for what has no other way out; the zero value drops it.
	Log logr.Logger
	// Stepped says that nobody waits for the clock to go on: an API server that
	// hangs refuses instead, or a call to it would never end.
	Stepped bool
	// Random gives numbers from 0 up to 1 for jitter; math/rand if nil.
	Random func() float64
}

// clusterSpec is what a simulated cluster is wanted to be.
type clusterSpec struct {
	Namespace, Name string
	UID             types.UID
	// Endpoint is where it is wanted; zero leaves the choice to the backend.
	// It cannot change later.
	Endpoint clusterv1.APIEndpoint
	Faults   []infrav1.ClusterFault
}

// Key is the cluster's namespace and name.
func (c clusterSpec) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
}

// machineSpec is what a simulated machine is wanted to be.
type machineSpec struct {
	Namespace, Name string
	UID             types.UID
	Cluster         string // the name of its Cluster, in the same namespace
	ProviderID      string
	FailureDomain   string
	Version         string // of Kubernetes on its image; that of the control plane if empty

	// Provisioned says that it has run its bootstrap data once: it is not
	// started another time.
	Provisioned     bool
	BootstrapData   []byte
	BootstrapFormat string // cloud-config if empty

	VM, Node, Etcd, APIServer infrav1.SimulatedStage
	Faults                    []infrav1.MachineFault
}

// Key is the machine's namespace and name.
func (m machineSpec) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: m.Namespace, Name: m.Name}
}

// Backend is one simulated infrastructure. Its methods may be called by
// several goroutines; calls for different clusters do not wait for each other.
type Backend struct {
	dir       string
	clock     clock.WithDelayedExecution
	log       logr.Logger
	random    func() float64
	stepped   bool // Options.Stepped
	listeners *apiserver.Listeners
	events    hub
	waking    owned // by the timers of machines

	mu       sync.Mutex // guards all below
	clusters map[types.NamespacedName]*cluster
	known    map[types.NamespacedName]record // on disk, not opened yet
	taken    map[netip.AddrPort]bool
	closed   bool
}

// New opens the infrastructure kept in a directory. Its clusters start to
// answer when they are ensured.
func New(o Options) (*Backend, error) {
	b := &Backend{
		dir: o.Dir, clock: o.Clock, log: o.Log, random: o.Random, stepped: o.Stepped,
		listeners: apiserver.NewListeners(o.Log),
		clusters:  map[types.NamespacedName]*cluster{},
		taken:     map[netip.AddrPort]bool{},
	}
	if b.clock == nil {
		b.clock = clock.RealClock{}
	}
	if b.random == nil {
		b.random = rand.Float64
	}
	var err error
	if b.known, err = scan(o.Dir, o.Log); err != nil {
		return nil, fmt.Errorf("open the simulated infrastructure in %s: %w", o.Dir, err)
	}
	for _, r := range b.known {
		b.taken[r.Address] = true
	}
	return b, nil
}

// Close stops everything. What was kept can be opened again.
func (b *Backend) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	open := make([]*cluster, 0, len(b.clusters))
	for _, c := range b.clusters {
		open = append(open, c)
	}
	b.mu.Unlock()
	var errs []error
	for _, c := range open {
		errs = append(errs, c.close())
	}
	b.waking.end()
	b.events.close()
	return errors.Join(append(errs, b.listeners.Close())...)
}

// ensureCluster makes the cluster's address, and gives it. Nothing listens
// there until a machine has run kubeadm init.
func (b *Backend) ensureCluster(want clusterSpec) (clusterv1.APIEndpoint, error) {
	if want.Namespace == "" || want.Name == "" || want.UID == "" {
		return clusterv1.APIEndpoint{}, errors.New("ensure a simulated cluster: namespace, name and UID are needed")
	}
	c, err := b.openCluster(want)
	if err != nil {
		return clusterv1.APIEndpoint{}, fmt.Errorf("simulated cluster %s: %w", want.Key(), err)
	}
	endpoint, err := c.ensure(want)
	if err != nil {
		return clusterv1.APIEndpoint{}, fmt.Errorf("simulated cluster %s: %w", want.Key(), err)
	}
	return endpoint, nil
}

// deleteCluster stops the cluster and forgets it with all its machines. It is
// fine if there is none.
func (b *Backend) deleteCluster(uid types.UID) error {
	if uid == "" {
		return errors.New("delete a simulated cluster: its UID is needed")
	}
	if err := b.drop(uid); err != nil {
		return fmt.Errorf("delete simulated cluster %s: %w", uid, err)
	}
	return nil
}

// ensureMachine starts the machine, or finds it started, and tells how far it
// is. It goes as far as it can without waiting for time to pass; what happens
// later is told by MachineChanges.
func (b *Backend) ensureMachine(want machineSpec) (MachineStatus, error) {
	if want.Namespace == "" || want.Name == "" || want.UID == "" {
		return MachineStatus{}, errors.New("ensure a simulated machine: namespace, name and UID are needed")
	}
	c, err := b.cluster(types.NamespacedName{Namespace: want.Namespace, Name: want.Cluster})
	if err != nil {
		return MachineStatus{}, fmt.Errorf("simulated machine %s: %w", want.Key(), err)
	}
	s, err := c.ensureMachine(want)
	if err != nil {
		return MachineStatus{}, fmt.Errorf("simulated machine %s: %w", want.Key(), err)
	}
	return s, nil
}

// deleteMachine stops the machine and forgets it: its static pods vanish, its
// etcd member dies and stays a member, and its Node stays and is not ready. It
// is fine if there is no such machine.
func (b *Backend) deleteMachine(clusterKey types.NamespacedName, uid types.UID) error {
	c, err := b.cluster(clusterKey)
	if errors.Is(err, host.ErrNoCluster) {
		return nil
	}
	if _, ok := errors.AsType[lost](err); ok {
		// Nothing runs of it; that its Cluster can be deleted must not wait.
		b.mu.Lock()
		dir := b.clusterDir(b.known[clusterKey].UID)
		b.mu.Unlock()
		err = removeFile(filepath.Join(dir, machineFile(uid)))
	} else if err == nil {
		err = c.deleteMachine(uid)
	}
	if err != nil {
		return fmt.Errorf("delete a simulated machine of cluster %s: %w", clusterKey, err)
	}
	return nil
}

// cluster finds one that exists, and opens it if it has not been yet.
func (b *Backend) cluster(key types.NamespacedName) (*cluster, error) {
	b.mu.Lock()
	c, kept := b.clusters[key], b.known[key]
	closed := b.closed
	b.mu.Unlock()
	switch {
	case closed:
		return nil, host.ErrClosed
	case c != nil:
		return c, nil
	case kept.UID == "":
		return nil, host.ErrNoCluster
	}
	return b.openCluster(clusterSpec{Namespace: key.Namespace, Name: key.Name, UID: kept.UID})
}

// openCluster finds the cluster, or what is kept of it, or makes a new one.
// One of the same name and another UID is from an earlier life, and goes.
func (b *Backend) openCluster(want clusterSpec) (*cluster, error) {
	key := want.Key()
	b.mu.Lock()
	other := b.known[key].UID
	if c := b.clusters[key]; c != nil {
		other = c.uid
	}
	b.mu.Unlock()
	if other != "" && other != want.UID {
		if err := b.drop(other); err != nil {
			return nil, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, host.ErrClosed
	}
	if c := b.clusters[key]; c != nil {
		return c, nil
	}
	kept, found := b.known[key]
	r := kept
	if !found {
		// What scan left out must not be written over.
		if err := b.unfinished(want.UID); err != nil {
			return nil, err
		}
		r = record{Namespace: want.Namespace, Name: want.Name, UID: want.UID, Faults: want.Faults}
	}
	place, err := b.place(r, want.Endpoint)
	if err != nil {
		return nil, err
	}
	r.Address = place.addr
	c, err := newCluster(b, r, kept, place)
	if err != nil {
		return nil, errors.Join(err, place.close())
	}
	b.taken[r.Address] = true
	b.clusters[key] = c
	delete(b.known, key)
	return c, nil
}

// unfinished is an error if there is more of a cluster than one leaves that
// was never finished making.
func (b *Backend) unfinished(uid types.UID) error {
	var r record
	file := filepath.Join(b.clusterDir(uid), clusterFile)
	if err := readJSON(file, &r); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	machines, err := filepath.Glob(filepath.Join(b.clusterDir(uid), machinePrefix+"*.json"))
	if err != nil || len(machines) == 0 {
		return err
	}
	return mustExist(file)
}

// drop forgets a cluster, whether it has been opened or not.
func (b *Backend) drop(uid types.UID) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return host.ErrClosed
	}
	for key, c := range b.clusters {
		if c.uid != uid {
			continue
		}
		if err := c.remove(); err != nil {
			return err
		}
		delete(b.clusters, key)
		delete(b.taken, c.place.addr)
		return nil
	}
	// One that could not be opened goes as well.
	if err := removeDir(b.clusterDir(uid)); err != nil {
		return err
	}
	for key, r := range b.known {
		if r.UID == uid {
			delete(b.known, key)
			delete(b.taken, r.Address)
		}
	}
	return nil
}
