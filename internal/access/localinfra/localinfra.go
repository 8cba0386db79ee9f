// SPDX-License-Identifier: Apache-2.0

// Package localinfra is the interface between the local provider's controllers and the
// infrastructure of this host: the operations that every kind of machines supports,
// and the choice of the kind for a spec. Its Hub sends the names of changed objects to
// subscribers.
package localinfra

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
)

var (
	// ErrNoCluster means that a machine's cluster has not been ensured, or was
	// deleted.
	ErrNoCluster = errors.New("the infrastructure of its cluster does not exist")
	// ErrOpening means that the infrastructure of a machine's cluster is about to be
	// opened: MachineChanges sends the machine when it is open.
	ErrOpening = errors.New("the infrastructure of its cluster is being opened")
	// ErrClosed means that the backend stops with its process. Its machines run again
	// after the next start.
	ErrClosed = errors.New("the infrastructure is closed")
	// ErrNotHere means that existing infrastructure is not on this host. It is not
	// created again.
	ErrNotHere = errors.New("its infrastructure is not on this host")
	// ErrNotAllowed means that the administrator does not allow such infrastructure in
	// the namespace. It lasts until the process is started with other flags.
	ErrNotAllowed = errors.New("container machines are not allowed in this namespace")
	// ErrNotChosen means that a spec selects no kind of machines: nothing was ever
	// created for it.
	ErrNotChosen = errors.New("spec asks for no kind of machines")
)

// HeldError means that another process runs the infrastructure: a cluster is being
// moved, or there is a copy of its objects.
type HeldError struct{ Holder string }

func (e *HeldError) Error() string { return "its infrastructure is held by " + e.Holder }

// Backend is one kind of infrastructure. Its methods are safe for concurrent use.
type Backend interface {
	// CheckEndpoint returns an error if no cluster can use the address that a spec
	// requests.
	CheckEndpoint(at clusterv1.APIEndpoint) error
	// EnsureCluster creates what a cluster needs, if it does not exist. It returns the
	// endpoint of the cluster's API server.
	EnsureCluster(ctx context.Context, want Cluster) (clusterv1.APIEndpoint, error)
	// ResumeCluster runs the existing infrastructure of a cluster in its last state.
	// It creates nothing if there is none.
	ResumeCluster(ctx context.Context, want Cluster) error
	// ReleaseCluster releases a cluster so that another process can run it. Nothing is
	// lost.
	ReleaseCluster(ctx context.Context, which Cluster) error
	// DeleteCluster deletes a cluster with all machines; it may not exist. A cluster
	// that another process runs or waits for is only released.
	DeleteCluster(ctx context.Context, which Cluster) error
	// ClusterChanges returns the names, as in Cluster.Object, of clusters that this
	// process could not run before and can run now, until ctx ends.
	ClusterChanges(ctx context.Context) <-chan types.NamespacedName

	// EnsureMachine starts a machine if it was not started, and returns its status. It
	// does not wait for the machine.
	EnsureMachine(ctx context.Context, want Machine) (MachineStatus, error)
	// DeleteMachine deletes a machine, which may not exist.
	DeleteMachine(ctx context.Context, which Machine) error
	// MachineChanges returns the names of machines whose status changed without a
	// call, until ctx ends.
	MachineChanges(ctx context.Context) <-chan types.NamespacedName

	// ProviderID returns the provider ID that a machine of that name will have once it
	// is up; "" if it cannot be predicted.
	ProviderID(machine types.NamespacedName, cluster string) string
	// Offer returns the resources of a machine of that spec before it exists.
	Offer(spec infrav1.LocalMachineSpec) Offer
}

// ID identifies what a backend stores for one object. Only ClusterID and MachineID
// define its content.
type ID string

// ClusterID identifies the infrastructure of a LocalCluster: by its identity, or by
// its UID as long as no identity is recorded.
func ClusterID(c *infrav1.LocalCluster) ID { return ID(cmp.Or(c.Spec.Identity, string(c.UID))) }

// MachineID identifies the new infrastructure of a LocalMachine. Existing
// infrastructure has its provider ID, which moves with the LocalMachine.
func MachineID(m *infrav1.LocalMachine) ID { return ID(m.UID) }

// Cluster is the desired state of a cluster's infrastructure.
type Cluster struct {
	types.NamespacedName // of the Cluster
	ID                   ID
	// Object and UID are those of the LocalCluster.
	Object types.NamespacedName
	UID    types.UID
	// Made is true if it was created before: it is not created again.
	Made bool
	// Spec is the user's. A backend reads the endpoint, which it chooses if it is
	// empty, and the part for its kind.
	Spec infrav1.LocalClusterSpec
}

// Machine is the desired state of a machine.
type Machine struct {
	types.NamespacedName // of the LocalMachine
	ID                   ID
	Cluster              string // the name of its Cluster, in the same namespace
	ClusterID            ID     // "" if unknown
	FailureDomain        string
	Version              string // of Kubernetes on its image; the backend's choice if empty
	ControlPlane         bool   // its Kubernetes must have an API server

	// Provisioned is true if it has run its bootstrap data: it is not started again.
	Provisioned     bool
	BootstrapData   []byte // must not be logged, nor put into an error
	BootstrapFormat string // cloud-config if empty

	// Spec is the user's. A backend reads the part for its kind.
	Spec infrav1.LocalMachineSpec
}

// Stage is the stage of a machine.
type Stage string

// The stages, in order; a machine ends in one of the last two.
const (
	Booting       Stage = "Booting"       // the machine itself starts
	Bootstrapping Stage = "Bootstrapping" // it runs its bootstrap data
	Done          Stage = "Done"          // its bootstrap data has succeeded
	Failed        Stage = "Failed"        // its bootstrap data has failed, and is not run again
)

// MachineStatus is the current state of a machine.
type MachineStatus struct {
	Stage Stage
	// Message is, in the stages before the last, what the machine waits for; in the
	// last two, its final state and the reason of a failure.
	Message string
	// Addresses and ProviderID are set once it is up.
	Addresses  clusterv1.MachineAddresses
	ProviderID string
}

// Up reports whether the machine itself has started.
func (s MachineStatus) Up() bool { return s.Stage != Booting }

// Offer is the resources of machines that do not exist yet, for an autoscaler.
type Offer struct {
	Capacity corev1.ResourceList
	NodeInfo infrav1.NodeInfo
}

// Backends are the kinds of infrastructure, each under the name of the field of
// spec that selects it. A backend that is nil is not available.
type Backends struct {
	Simulated Backend
	Container Backend
	// NoContainer is why Container is nil, with a remedy; empty means that this
	// process was not configured to have it.
	NoContainer string
}

// OfCluster returns the backend that a LocalCluster selects. An error lasts until
// its spec changes or the process is started again.
func (b Backends) OfCluster(spec infrav1.LocalClusterSpec) (Backend, error) {
	return b.choose(spec.Simulated != nil, spec.Container != nil)
}

// OfMachine returns the backend that a LocalMachine selects, like OfCluster.
func (b Backends) OfMachine(spec infrav1.LocalMachineSpec) (Backend, error) {
	return b.choose(spec.Simulated != nil, spec.Container != nil)
}

func (b Backends) choose(simulated, container bool) (Backend, error) {
	return choose(choice{field: "simulated", asked: simulated, backend: b.Simulated}, choice{"container", container, b.Container, b.NoContainer})
}

// All returns the available backends.
func (b Backends) All() []Backend {
	var all []Backend
	for _, backend := range []Backend{b.Simulated, b.Container} {
		if backend != nil {
			all = append(all, backend)
		}
	}
	return all
}

// choice is one kind of infrastructure, and whether a spec selects it.
type choice struct {
	field   string
	asked   bool
	backend Backend
	why     string // why there is no backend; empty is the usual reason
}

func choose(choices ...choice) (Backend, error) {
	var fields []string
	for _, c := range choices {
		if c.asked && c.backend == nil {
			return nil, fmt.Errorf("spec.%s asks for machines that cannot run here: %s", c.field, cmp.Or(c.why, "choose another kind, or have a manager reconcile this that runs them"))
		}
		if c.asked {
			return c.backend, nil
		}
		fields = append(fields, "spec."+c.field)
	}
	return nil, fmt.Errorf("%w: set %s", ErrNotChosen, strings.Join(fields, " or "))
}

// Updater is a Backend that can update running machines to another version of
// Kubernetes.
type Updater interface {
	// UpdateMachine updates a machine to Machine.Version, and returns the progress. It
	// does not wait for the end, and continues an update that an earlier process
	// started. An error is the reason of a failure; a later call tries again.
	UpdateMachine(ctx context.Context, want Machine) (Progress, error)
}

// Progress is the progress of the update of a machine.
type Progress struct {
	Done bool
	// Message is the current step, if the update is not done.
	Message string
}
