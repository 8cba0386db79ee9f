// SPDX-License-Identifier: Apache-2.0

// Package host is the infrastructure of this host as the local provider's
// controllers see it: what they ask of a kind of machines, in words that are
// true of every kind, and which kind a spec asks for.
package host

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
	// ErrNoCluster means that a machine's cluster has not been ensured, or is
	// gone.
	ErrNoCluster = errors.New("the infrastructure of its cluster does not exist")
	// ErrOpening means that the infrastructure of a machine's cluster is about to
	// be opened: MachineChanges tells when it has been.
	ErrOpening = errors.New("the infrastructure of its cluster is being opened")
	// ErrClosed means that the backend stops with its process. What ran runs
	// again after the next start.
	ErrClosed = errors.New("the infrastructure is closed")
	// ErrNotHere means that what was made once is not on this host: it is not
	// made another time.
	ErrNotHere = errors.New("its infrastructure is not on this host")
	// ErrNotAllowed means that the administrator does not allow such infrastructure in
	// the namespace. It lasts until the process is started with other flags.
	ErrNotAllowed = errors.New("container machines are not allowed in this namespace")
	// ErrNotChosen means that a spec asks for no kind of machines: nothing was
	// ever made for it.
	ErrNotChosen = errors.New("spec asks for no kind of machines")
)

// HeldError means that another process runs the infrastructure: a cluster is
// moved, or there is a copy of its objects.
type HeldError struct{ Holder string }

func (e *HeldError) Error() string { return "its infrastructure is held by " + e.Holder }

// Backend is one kind of infrastructure. Its methods may be called by several
// goroutines.
type Backend interface {
	// CheckEndpoint says why no cluster may be reached at an address that its
	// author asks for.
	CheckEndpoint(at clusterv1.APIEndpoint) error
	// EnsureCluster makes what a cluster needs, or finds it made. It returns where
	// the API server of the cluster is reached.
	EnsureCluster(ctx context.Context, want Cluster) (clusterv1.APIEndpoint, error)
	// ResumeCluster has run what was made of a cluster, as it was left. Of one
	// that nobody has made it makes nothing.
	ResumeCluster(ctx context.Context, want Cluster) error
	// ReleaseCluster lets go of it, for another process to run. Nothing is lost.
	ReleaseCluster(ctx context.Context, which Cluster) error
	// DeleteCluster removes it, with all machines; there need be none. One that
	// another process runs, or waits for, is only let go of.
	DeleteCluster(ctx context.Context, which Cluster) error
	// ClusterChanges names what Cluster.Object said of clusters that may be run
	// now and could not be before, until ctx ends.
	ClusterChanges(ctx context.Context) <-chan types.NamespacedName

	// EnsureMachine starts a machine, or finds it started, and tells how far
	// it is. It does not wait for it.
	EnsureMachine(ctx context.Context, want Machine) (MachineStatus, error)
	// DeleteMachine removes a machine; there need be none.
	DeleteMachine(ctx context.Context, which Machine) error
	// MachineChanges names machines whose status changed by itself, until ctx
	// ends.
	MachineChanges(ctx context.Context) <-chan types.NamespacedName

	// ProviderID is what a machine of that name will be known by once it has
	// come up; "" if nobody can say before.
	ProviderID(machine types.NamespacedName, cluster string) string
	// Offer is what a machine of that spec will have to offer.
	Offer(spec infrav1.LocalMachineSpec) Offer
}

// ID names what a backend keeps for one object. Nothing but ClusterID and
// MachineID says what it is made of.
type ID string

// ClusterID names the infrastructure of a LocalCluster: by its identity, which
// is its UID as long as none is noted.
func ClusterID(c *infrav1.LocalCluster) ID { return ID(cmp.Or(c.Spec.Identity, string(c.UID))) }

// MachineID names what is new of a LocalMachine. What was made has its provider
// ID, which goes where the LocalMachine goes.
func MachineID(m *infrav1.LocalMachine) ID { return ID(m.UID) }

// Cluster is what a cluster's infrastructure is wanted to be.
type Cluster struct {
	types.NamespacedName // of the Cluster
	ID                   ID
	// Object and UID are those of the LocalCluster.
	Object types.NamespacedName
	UID    types.UID
	// Made says that it was made before: it is not made another time.
	Made bool
	// Spec is its author's. A backend reads the endpoint, which it chooses if
	// it is empty, and its own part.
	Spec infrav1.LocalClusterSpec
}

// Machine is what a machine is wanted to be.
type Machine struct {
	types.NamespacedName // of the LocalMachine
	ID                   ID
	Cluster              string // the name of its Cluster, in the same namespace
	ClusterID            ID     // "" if it is not known
	FailureDomain        string
	Version              string // of Kubernetes on its image; the backend's choice if empty
	ControlPlane         bool   // its Kubernetes is to have an API server

	// Provisioned says that it has run its bootstrap data once: it is not
	// started another time.
	Provisioned     bool
	BootstrapData   []byte // never logged, nor put into an error
	BootstrapFormat string // cloud-config if empty

	// Spec is its author's. A backend reads its own part.
	Spec infrav1.LocalMachineSpec
}

// Stage is what a machine is at.
type Stage string

// The stages, in their order; a machine ends in one of the last two.
const (
	Booting       Stage = "Booting"       // the machine itself comes up
	Bootstrapping Stage = "Bootstrapping" // it runs its bootstrap data
	Done          Stage = "Done"          // its bootstrap data has run
	Failed        Stage = "Failed"        // its bootstrap data has failed, and is not run again
)

// MachineStatus is how far a machine is.
type MachineStatus struct {
	Stage Stage
	// Message says, in the stages before the last, what is waited for; of the
	// last two, what the machine has become and why it failed.
	Message string
	// Addresses and ProviderID are known once it has come up.
	Addresses  clusterv1.MachineAddresses
	ProviderID string
}

// Up reports whether the machine itself has come up.
func (s MachineStatus) Up() bool { return s.Stage != Booting }

// Offer is what machines have that are not there yet, for an autoscaler.
type Offer struct {
	Capacity corev1.ResourceList
	NodeInfo infrav1.NodeInfo
}

// Backends are the kinds of infrastructure, each under the name of the field of
// spec that asks for it. One that is nil is not here.
type Backends struct {
	Simulated Backend
	Container Backend
	// NoContainer says why Container is nil, and what to do about it; empty says
	// that this process was not asked to have it.
	NoContainer string
}

// OfCluster is the backend that a LocalCluster asks for. An error lasts until
// its spec changes or the process is started again.
func (b Backends) OfCluster(spec infrav1.LocalClusterSpec) (Backend, error) {
	return b.choose(spec.Simulated != nil, spec.Container != nil)
}

// OfMachine is the backend that a LocalMachine asks for, as OfCluster is.
func (b Backends) OfMachine(spec infrav1.LocalMachineSpec) (Backend, error) {
	return b.choose(spec.Simulated != nil, spec.Container != nil)
}

func (b Backends) choose(simulated, container bool) (Backend, error) {
	return choose(choice{field: "simulated", asked: simulated, backend: b.Simulated}, choice{"container", container, b.Container, b.NoContainer})
}

// All are the backends that are here.
func (b Backends) All() []Backend {
	var all []Backend
	for _, backend := range []Backend{b.Simulated, b.Container} {
		if backend != nil {
			all = append(all, backend)
		}
	}
	return all
}

// choice is one kind of infrastructure, and whether a spec asks for it.
type choice struct {
	field   string
	asked   bool
	backend Backend
	why     string // there is no backend; empty is the usual reason
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
