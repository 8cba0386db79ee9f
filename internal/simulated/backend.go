// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/kit/dialguard"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver"
	"github.com/capstan-dev/capstan/internal/simulated/statedir"
)

// Options is what a Backend needs.
type Options struct {
	// Dir is where everything is kept, for all backends of this host. It is created
	// if it is missing, and holds the clusters' private keys.
	Dir string
	// Links is a folder of this backend alone, with a link to each cluster that it
	// runs. State of earlier versions that is stored in it moves to Dir. "" means
	// none.
	Links string
	// Holder describes the owner of this backend to other backends and to users.
	Holder string
	// Guard receives the addresses of the clusters' API servers, so that Pods reach them; nil if
	// this process runs no Pods.
	Guard *dialguard.Guard
	// Clock is the real one if nil.
	Clock clock.WithDelayedExecution
	// Log is for errors that cannot be returned; the zero value drops them.
	Log logr.Logger
	// Stepped means that no caller waits for the clock to advance: an API server
	// that hangs refuses instead, since a call to it would never end.
	Stepped bool
	// Unsynced means that nothing must outlive the host: no write waits for the
	// disk.
	Unsynced bool
	// Random gives numbers from 0 up to 1 for jitter; math/rand if nil.
	Random func() float64
}

// clusterSpec is the desired state of a simulated cluster.
type clusterSpec struct {
	Namespace, Name string
	UID             types.UID // its identity
	Object          types.NamespacedName
	Owner           types.UID // of Object; "" if unknown
	// Made means that it was created before: it is not created another time.
	Made bool
	// Known means that only a cluster that was kept under this name is opened.
	Known bool
	// Endpoint is the requested endpoint; zero leaves the choice to the backend. It
	// cannot change later.
	Endpoint clusterv1.APIEndpoint
	Faults   []infrav1.ClusterFault
}

// Key is the cluster's namespace and name.
func (c clusterSpec) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
}

// machineSpec is the desired state of a simulated machine.
type machineSpec struct {
	Namespace, Name string
	UID             types.UID // of the object for which it was created
	Cluster         string    // the name of its Cluster, in the same namespace
	ClusterUID      types.UID `json:"-"` // its identity; "" if unknown
	ProviderID      string    // which identifies it
	FailureDomain   string
	Version         string // of Kubernetes on its image; that of the control plane if empty

	// Provisioned means that it has run its bootstrap data once: it is not started
	// another time.
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
	dir       *statedir.Dir
	clock     clock.WithDelayedExecution
	log       logr.Logger
	ctx       context.Context // with log
	random    func() float64
	stepped   bool // Options.Stepped
	unsynced  bool // Options.Unsynced
	listeners *apiserver.Listeners
	guard     *dialguard.Guard
	machines  localinfra.Hub   // that changed
	free      localinfra.Hub   // clusters that may be free
	waking    localinfra.Owned // by the timers of machines

	mu       sync.Mutex // guards all below
	clusters map[types.NamespacedName]*cluster
	byUID    map[types.UID]*cluster
	asked    map[types.NamespacedName]map[types.NamespacedName]bool // machines of clusters that do not run; true for those that must be retried
	busy     map[string]bool                                        // identities and names of clusters that are opened or closed now
	settled  sync.Cond                                              // when one is not busy any more
	closed   bool
}

// New opens the infrastructure kept in a directory. Its clusters start to
// answer when they are ensured, or resumed.
func New(o Options) (*Backend, error) {
	b := &Backend{
		clock: o.Clock, log: o.Log, ctx: logr.NewContext(context.Background(), o.Log), random: o.Random, stepped: o.Stepped, unsynced: o.Unsynced,
		listeners: apiserver.NewListeners(o.Log),
		guard:     cmp.Or(o.Guard, &dialguard.Guard{}),
		clusters:  map[types.NamespacedName]*cluster{},
		byUID:     map[types.UID]*cluster{},
		asked:     map[types.NamespacedName]map[types.NamespacedName]bool{},
		busy:      map[string]bool{},
	}
	b.settled.L = &b.mu
	if b.clock == nil {
		b.clock = clock.RealClock{}
	}
	if b.random == nil {
		b.random = rand.Float64
	}
	var err error
	if b.dir, err = statedir.Open(statedir.Options{Path: o.Dir, Links: o.Links, Holder: o.Holder, Log: o.Log}); err != nil {
		return nil, fmt.Errorf("open the simulated infrastructure in %s: %w", o.Dir, err)
	}
	return b, nil
}

// Handler returns the API server that listens on an address, for requests of this
// process, which need no connection; the client certificate is in http.Request.TLS.
// It is nil if a connection would fail before a request is read.
func (b *Backend) Handler(addr string) http.Handler { return b.listeners.Handler(addr) }

// Close stops everything. What was kept can be opened again.
func (b *Backend) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	for len(b.busy) > 0 {
		b.settled.Wait()
	}
	open := slices.Collect(maps.Values(b.clusters))
	b.mu.Unlock()
	var errs []error
	for _, c := range open {
		errs = append(errs, c.close(), c.held.Close())
	}
	b.dir.Close()
	b.waking.End()
	b.machines.Close()
	b.free.Close()
	return errors.Join(append(errs, b.listeners.Close())...)
}

// ensureCluster reserves the cluster's address, and returns it. Nothing listens
// there until a machine has run kubeadm init.
func (b *Backend) ensureCluster(want clusterSpec) (clusterv1.APIEndpoint, error) {
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

// resumeCluster opens an existing cluster, and does not change it.
func (b *Backend) resumeCluster(want clusterSpec) error {
	want.Made = true
	if _, err := b.openCluster(want); err != nil {
		return fmt.Errorf("simulated cluster %s: %w", want.Key(), err)
	}
	return nil
}

// deleteCluster stops the cluster and deletes it with all its machines. It returns
// nil if the cluster does not exist.
func (b *Backend) deleteCluster(which clusterSpec) error {
	if which.UID == "" {
		return errors.New("delete a simulated cluster: its identity is needed")
	}
	if err := b.drop(which); err != nil {
		return fmt.Errorf("delete simulated cluster %s: %w", which.UID, err)
	}
	return nil
}

// releaseCluster stops the cluster here, and leaves its stored state to the backend
// that resumes it.
func (b *Backend) releaseCluster(which clusterSpec) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.alone(which)()
	b.dir.Forget(string(which.UID))
	c := b.byUID[which.UID]
	if c == nil || b.closed || !c.of(which) {
		return nil
	}
	if err := b.release(c); err != nil {
		return fmt.Errorf("release simulated cluster %s: %w", which.Key(), err)
	}
	return nil
}

// ensureMachine starts the machine, or finds it started, and returns its status. It
// proceeds as far as it can without waiting for time to pass; MachineChanges
// reports what happens later.
func (b *Backend) ensureMachine(want machineSpec) (MachineStatus, error) {
	if want.Namespace == "" || want.Name == "" || want.UID == "" {
		return MachineStatus{}, errors.New("ensure a simulated machine: namespace, name and UID are needed")
	}
	if b.opens(want) {
		return MachineStatus{}, fmt.Errorf("simulated machine %s: %w", want.Key(), localinfra.ErrOpening)
	}
	c, err := b.cluster(want)
	if err != nil {
		return MachineStatus{}, fmt.Errorf("simulated machine %s: %w", want.Key(), err)
	}
	s, err := c.ensureMachine(want)
	if err != nil {
		return MachineStatus{}, fmt.Errorf("simulated machine %s: %w", want.Key(), err)
	}
	return s, nil
}

// deleteMachine stops and deletes the machine: its static pods vanish, its etcd
// member stops and stays a member, and its Node stays and is not ready. It returns
// nil if this host has no such machine.
func (b *Backend) deleteMachine(which machineSpec) error {
	c, err := b.cluster(which)
	if errors.Is(err, localinfra.ErrNoCluster) || errors.Is(err, localinfra.ErrNotHere) {
		return nil
	}
	if _, elsewhere := errors.AsType[*localinfra.HeldError](err); elsewhere {
		return nil
	}
	if _, ok := errors.AsType[lost](err); ok {
		// Nothing runs of it; that its Cluster can be deleted must not wait.
		err = removeFile(filepath.Join(b.clusterDir(which.ClusterUID), machineFile(which.UID)))
	} else if err == nil {
		err = c.deleteMachine(which)
	}
	if err != nil {
		return fmt.Errorf("delete simulated machine %s: %w", which.Key(), err)
	}
	return nil
}
