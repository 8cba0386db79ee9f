// SPDX-License-Identifier: Apache-2.0

// Package simulated starts simulated Kubernetes clusters for tests: an API server with
// Nodes, in the memory of the test and in a few milliseconds. Nothing has to be installed
// or downloaded, and many can run side by side.
//
//	func TestMyController(t *testing.T) {
//		cfg := simulated.Start(t, simulated.Options{Workers: 3})
//		...
//	}
//
// The cluster is the same as a simulated cluster of a management plane: clients reach it
// at its own address, with TLS, and cannot distinguish it from a real one within what it
// supports. Its machines run no containers.
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
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/kit/kubeconfig"
	backend "github.com/capstan-dev/capstan/internal/simulated"
)

// DefaultVersion is the version of Kubernetes that a cluster reports by default.
const DefaultVersion = "v1.36.3"

// Options describe a cluster. The zero value is a cluster of one control plane Node.
type Options struct {
	// Version is that of Kubernetes, such as v1.36.3; DefaultVersion if empty.
	Version string

	// ControlPlane is how many Nodes the control plane has, each with an API
	// server and an etcd member: control-plane-1 and so on. Zero means one.
	ControlPlane int

	// Workers is the number of additional Nodes: worker-1 and so on.
	Workers int

	// Faults are the faults of the cluster, and NodeFaults those of Nodes, by their
	// names. They start when all Nodes are ready. SetFaults and SetNodeFaults change
	// them.
	Faults     []infrav1.ClusterFault
	NodeFaults map[string][]infrav1.MachineFault

	// Dir is a directory to store the cluster in, with its private keys. A cluster that
	// is stored there is resumed, with its address, keys and objects; it may get more
	// Nodes, but no other version, and retains the existing ones. Empty means that the
	// cluster is deleted when it is closed.
	Dir string
}

// TB is the part of a test that Start uses: a *testing.T, *testing.B or *testing.F.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Start starts a cluster that ends with the test, and returns the config of its
// administrator. The test fails if the cluster cannot be started.
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

// Cluster is a running simulated cluster. Its methods are safe for concurrent use.
type Cluster struct {
	backend    *backend.Backend
	kept       *kept
	temporary  string // directory, to be removed; empty if the user's
	kubeconfig []byte
	config     *rest.Config

	mu       sync.Mutex // guards the following fields
	machines map[string]localinfra.Machine
}

// key names the only cluster of a backend.
var key = types.NamespacedName{Namespace: "default", Name: "simulated"}

// New starts a cluster, for callers that need more than Start provides. It must be
// closed.
func New(o Options) (*Cluster, error) {
	c, err := start(o)
	if err != nil {
		return nil, fmt.Errorf("start a simulated cluster: %w", err)
	}
	return c, nil
}

func start(o Options) (_ *Cluster, err error) {
	c := &Cluster{machines: map[string]localinfra.Machine{}}
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

// boot starts all machines, in their order.
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
		m := localinfra.Machine{
			ID: localinfra.ID(n.name), Cluster: key.Name, BootstrapData: data,
			Spec: infrav1.LocalMachineSpec{Simulated: &infrav1.LocalMachineSimulated{}},
		}
		m.Namespace, m.Name = key.Namespace, n.name
		s, err := c.backend.EnsureMachine(context.Background(), m)
		if err != nil {
			return err
		}
		if s.Stage != localinfra.Done {
			return fmt.Errorf("node %s: %s", n.name, s.Message)
		}
		c.machines[n.name] = m
	}
	return nil
}

// ensure creates or updates the cluster, and returns the URL of its API server.
func (c *Cluster) ensure(faults []infrav1.ClusterFault) (server string, err error) {
	endpoint, err := c.backend.EnsureCluster(context.Background(), localinfra.Cluster{
		NamespacedName: key, ID: c.kept.ID, Spec: infrav1.LocalClusterSpec{Simulated: &infrav1.LocalClusterSimulated{Faults: faults}},
	})
	return endpoint.String(), err
}

// connect creates what clients need.
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
	c.config.QPS = -1 // no client-side limit
	return nil
}

// Config is the config of the cluster's administrator: a copy, without a limit of
// requests.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig is the same as a file, for programs. It holds a private key.
func (c *Cluster) Kubeconfig() []byte { return slices.Clone(c.kubeconfig) }

// SetFaults sets the faults of the cluster, replacing the previous ones.
func (c *Cluster) SetFaults(faults ...infrav1.ClusterFault) error {
	_, err := c.ensure(faults)
	return err
}

// SetNodeFaults sets the faults of a Node's machine, replacing the previous ones.
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

// Close ends the cluster. A cluster in Options.Dir can be started again.
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
