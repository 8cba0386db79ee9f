// SPDX-License-Identifier: Apache-2.0

// Package simulated starts simulated Kubernetes clusters for tests: an API
// server with Nodes, in the memory of the test and in a few milliseconds.
// Nothing has to be installed or downloaded, and many run side by side.
//
//	func TestMyController(t *testing.T) {
//		cfg := simulated.Start(t, simulated.Options{Workers: 3})
//		...
//	}
//
// The cluster is what a simulated cluster of a management plane is: clients
// reach it at an address of its own, with TLS, and cannot tell it from a real one
// for what they use. Its machines run no containers.
package simulated

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/host"
	"github.com/capstan-dev/capstan/internal/kit/kubeconfig"
	backend "github.com/capstan-dev/capstan/internal/simulated"
)

// DefaultVersion is the version of Kubernetes that a cluster says it has if
// nobody chooses one.
const DefaultVersion = "v1.36.3"

// Options says what a cluster is like. The zero value is a cluster of one
// control plane Node.
type Options struct {
	// Version is that of Kubernetes, such as v1.36.3; DefaultVersion if empty.
	Version string

	// ControlPlane is how many Nodes the control plane has, each with an API
	// server and an etcd member: control-plane-1 and so on. Zero means one.
	ControlPlane int

	// Workers is how many Nodes there are besides: worker-1 and so on.
	Workers int

	// Faults are what goes wrong with the cluster, and NodeFaults with Nodes, by
	// their names, as soon as all has come up. SetFaults and SetNodeFaults
	// change them.
	Faults     []infrav1.ClusterFault
	NodeFaults map[string][]infrav1.MachineFault

	// Dir is a directory to keep the cluster in, with its private keys. What is
	// kept there is taken up again, with its address, keys and objects; it may
	// get more Nodes, but no other version, and keeps those that it has. Empty
	// means that the cluster is gone when it is closed.
	Dir string
}

// TB is what Start needs of a test: a *testing.T, *testing.B or *testing.F.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Start starts a cluster that ends with the test, and returns how its
// administrator reaches it. The test fails if it cannot be started.
func Start(t TB, o Options) *rest.Config {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("%v", err)
		}
	})
	return c.Config()
}

// Cluster is a simulated cluster that runs. Its methods may be called by
// several goroutines.
type Cluster struct {
	backend    *backend.Backend
	kept       *kept
	temporary  string // directory, to be removed; empty if the user's
	kubeconfig []byte
	config     *rest.Config

	mu       sync.Mutex // guards all below
	machines map[string]host.Machine
}

// key names the only cluster of a backend.
var key = types.NamespacedName{Namespace: "default", Name: "simulated"}

// New starts a cluster, for who wants more of it than Start gives. It has to be
// closed.
func New(o Options) (*Cluster, error) {
	c, err := start(o)
	if err != nil {
		return nil, fmt.Errorf("start a simulated cluster: %w", err)
	}
	return c, nil
}

func start(o Options) (_ *Cluster, err error) {
	c := &Cluster{machines: map[string]host.Machine{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "simulated-"); err != nil {
			return nil, err
		}
		c.temporary = o.Dir
	}
	if c.kept, err = take(o); err != nil {
		return nil, err
	}
	if c.backend, err = backend.New(backend.Options{Dir: stateDir(o.Dir), Unsynced: c.temporary != ""}); err != nil {
		return nil, err
	}
	if err := c.boot(); err != nil {
		return nil, err
	}
	if err := c.connect(); err != nil {
		return nil, err
	}
	if err := c.SetFaults(o.Faults...); err != nil {
		return nil, err
	}
	for node, faults := range o.NodeFaults {
		if err := c.SetNodeFaults(node, faults...); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// boot brings up all machines, in their order.
func (c *Cluster) boot() error {
	endpoint, err := c.ensure(nil)
	if err != nil {
		return err
	}
	nodes, err := c.kept.nodes(endpoint)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		data, err := n.boot.Data()
		if err != nil {
			return err
		}
		m := host.Machine{
			ID: host.ID(n.name), Cluster: key.Name, BootstrapData: data,
			Spec: infrav1.LocalMachineSpec{Simulated: &infrav1.LocalMachineSimulated{}},
		}
		m.Namespace, m.Name = key.Namespace, n.name
		s, err := c.backend.EnsureMachine(context.Background(), m)
		if err != nil {
			return err
		}
		if s.Stage != host.Done {
			return fmt.Errorf("node %s: %s", n.name, s.Message)
		}
		c.machines[n.name] = m
	}
	return nil
}

// ensure has the cluster, and gives the URL of its API server.
func (c *Cluster) ensure(faults []infrav1.ClusterFault) (server string, err error) {
	endpoint, err := c.backend.EnsureCluster(context.Background(), host.Cluster{
		NamespacedName: key, ID: c.kept.ID, Spec: infrav1.LocalClusterSpec{Simulated: &infrav1.LocalClusterSimulated{Faults: faults}},
	})
	return endpoint.String(), err
}

// connect makes what clients need.
func (c *Cluster) connect() error {
	server, err := c.ensure(nil)
	if err != nil {
		return err
	}
	if c.kubeconfig, err = kubeconfig.New(kubeconfig.Options{Cluster: key.Name, Server: "https://" + server, CA: c.kept.PKI.CA, Now: time.Now()}); err != nil {
		return err
	}
	if c.config, err = kubeconfig.RESTConfig(c.kubeconfig); err != nil {
		return err
	}
	c.config.QPS = -1 // nobody has to be spared
	return nil
}

// Config is how the cluster's administrator reaches it: a copy, with no limit
// of requests.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig is the same as a file, for programs. It holds a private key.
func (c *Cluster) Kubeconfig() []byte { return slices.Clone(c.kubeconfig) }

// SetFaults makes these go wrong with the cluster, and no others.
func (c *Cluster) SetFaults(faults ...infrav1.ClusterFault) error {
	_, err := c.ensure(faults)
	return err
}

// SetNodeFaults makes these go wrong with a Node's machine, and no others.
func (c *Cluster) SetNodeFaults(node string, faults ...infrav1.MachineFault) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, ok := c.machines[node]
	if !ok {
		var there []string
		for name := range c.machines {
			there = append(there, name)
		}
		slices.Sort(there)
		return fmt.Errorf("there is no Node %q: choose of %s", node, strings.Join(there, ", "))
	}
	m.Spec.Simulated = &infrav1.LocalMachineSimulated{Faults: faults}
	if _, err := c.backend.EnsureMachine(context.Background(), m); err != nil {
		return err
	}
	c.machines[node] = m
	return nil
}

// Close ends the cluster. What Options.Dir keeps can be started again.
func (c *Cluster) Close() error {
	var errs []error
	if c.backend != nil {
		errs = append(errs, c.backend.Close())
	}
	if c.temporary != "" {
		errs = append(errs, os.RemoveAll(c.temporary))
	}
	return errors.Join(errs...)
}
