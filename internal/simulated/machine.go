// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/loopback"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/internal/simulated/bootstrap"
)

// Stage is what a machine is at.
type Stage string

// The stages. Which of them a machine goes through, and in which order, depends on
// its user data.
const (
	Booting           Stage = "Booting"           // the virtual machine starts
	Bootstrapping     Stage = "Bootstrapping"     // kubeadm reads its configuration, and finds the cluster
	StartingEtcd      Stage = "StartingEtcd"      // the machine's etcd starts, and becomes a member
	StartingAPIServer Stage = "StartingAPIServer" // the machine's API server starts
	RegisteringNode   Stage = "RegisteringNode"   // the kubelet starts and registers
	Running           Stage = "Running"           // kubeadm has finished
	Failed            Stage = "Failed"            // kubeadm has failed, and is not run again
)

// MachineStatus is how far a machine is.
type MachineStatus struct {
	// Running means that the virtual machine has started.
	Running bool
	Stage   Stage
	// Message is what a stage waits for, or why kubeadm failed; else empty.
	Message    string
	Addresses  clusterv1.MachineAddresses
	NodeName   string // empty until kubeadm's configuration has been read
	ProviderID string
}

// Done reports whether kubeadm has finished without failing.
func (s MachineStatus) Done() bool { return s.Stage == Running }

func (s MachineStatus) equal(o MachineStatus) bool {
	return s.Running == o.Running && s.Stage == o.Stage && s.Message == o.Message && s.NodeName == o.NodeName &&
		s.ProviderID == o.ProviderID && slices.Equal(s.Addresses, o.Addresses)
}

// role is what a machine is in its cluster.
type role string

const (
	unknown role = "" // until its user data has been read
	founder role = "init"
	joiner  role = "join-control-plane"
	worker  role = "join"
)

func (r role) controlPlane() bool { return r == founder || r == joiner }

// steps are what a machine of that role does, in order.
func (r role) steps() []Stage {
	switch r {
	case founder: // the kubelet cannot register before there is an API server
		return []Stage{stepBoot, stepKubeadm, stepEtcd, stepAPIServer, stepNode}
	case joiner:
		return []Stage{stepBoot, stepKubeadm, stepNode, stepEtcd, stepAPIServer}
	case worker:
		return []Stage{stepBoot, stepKubeadm, stepNode}
	}
	return []Stage{stepBoot, stepKubeadm}
}

// A step has the name of the stage in which it is done.
const (
	stepBoot      = Booting
	stepKubeadm   = Bootstrapping
	stepEtcd      = StartingEtcd
	stepAPIServer = StartingAPIServer
	stepNode      = RegisteringNode
)

// machine is the stored state of a machine. Its user data is dropped after its use.
type machine struct {
	machineSpec
	Index   int       `json:"index"`
	Address string    `json:"address"`
	Role    role      `json:"role,omitempty"`
	Steps   int       `json:"steps"`             // how many it has done
	Due     time.Time `json:"due,omitzero"`      // when the next is done, once it has started
	Until   time.Time `json:"until,omitzero"`    // when it gives up waiting
	Waiting string    `json:"waiting,omitempty"` // for what
	Failure string    `json:"failure,omitempty"` // why it never will
	Lost    bool      `json:"lost,omitempty"`    // its disk is
	// Set when kubeadm's configuration has been read, and the Node created.
	NodeName       string `json:"nodeName,omitempty"`
	NodeProviderID string `json:"nodeProviderID,omitempty"`
	// When the certificates expire that kubeadm created; only of a control plane.
	CertificatesEnd time.Time `json:"certificatesEnd,omitzero"`
	// Where its API server listens, if that is not where kubeadm has it.
	Port int32 `json:"port,omitempty"`

	// Of its API server, once a client has seen it; and the same, ready for use.
	Serving     certs.Pair `json:"serving,omitzero"`
	certificate tls.Certificate

	run   *bootstrap.Run
	dirty bool // some state is not on disk yet
	timer clock.Timer
	told  MachineStatus
}

func (m *machine) key() types.NamespacedName { return m.machineSpec.Key() }

func (m *machine) has(f infrav1.MachineFault) bool { return slices.Contains(m.Faults, f) }

// finished reports whether there is nothing left to do.
func (m *machine) finished() bool {
	return m.Failure != "" || m.Role != unknown && m.Steps >= len(m.Role.steps())
}

// next is the step to do. The machine must not be finished.
func (m *machine) next() Stage { return m.Role.steps()[m.Steps] }

// did reports whether a step is done.
func (m *machine) did(step Stage) bool {
	i := slices.Index(m.Role.steps(), step)
	return i >= 0 && i < m.Steps
}

func (m *machine) status() MachineStatus {
	s := MachineStatus{Running: m.did(stepBoot), NodeName: m.NodeName, ProviderID: m.ProviderID, Message: m.Waiting}
	switch {
	case m.Failure != "":
		s.Stage, s.Message = Failed, m.Failure
	case m.finished():
		s.Stage = Running
	default:
		if s.Stage = m.next(); m.Lost {
			s.Message = "its disk is lost"
		} else if m.off() {
			s.Message = "it has no power"
		}
	}
	if m.NodeProviderID != "" {
		s.ProviderID = m.NodeProviderID
	}
	if s.Running {
		s.Addresses = clusterv1.MachineAddresses{
			{Type: clusterv1.MachineHostName, Address: m.Name},
			{Type: clusterv1.MachineInternalIP, Address: m.Address},
		}
	}
	return s
}

func (m *machine) apiServerPort() int32 { return cmp.Or(m.Port, loopback.Port) }

func (m *machine) sleep() {
	if m.timer != nil {
		m.timer.Stop()
		m.timer = nil
	}
}

// machineAddress is the nth of a network that nothing is sent to.
func machineAddress(n int) string {
	return fmt.Sprintf("10.%d.%d.%d", 64+(n/254/256)%64, (n/254)%256, n%254+1)
}

// ensureMachine applies the desired state.
func (c *cluster) ensureMachine(want machineSpec) (MachineStatus, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return MachineStatus{}, localinfra.ErrNoCluster
	}
	m := c.known(want)
	if m == nil {
		if want.Provisioned {
			return MachineStatus{}, errors.Join(fmt.Errorf("%w: %w", localinfra.ErrNotHere, missing(filepath.Join(c.dir, machineFile(want.UID)))), c.markLost(want))
		}
		if len(want.BootstrapData) == 0 {
			return MachineStatus{}, errors.New("there is no bootstrap data to start it with")
		}
		m = &machine{machineSpec: want, Index: c.record.Machines, Address: machineAddress(c.record.Machines)}
		m.BootstrapData, m.dirty = slices.Clone(want.BootstrapData), true
		m.Lost = m.has(infrav1.MachineFaultDiskLost)
		c.record.Machines++
		c.machines = append(c.machines, m)
	} else if m.Name != want.Name {
		return MachineStatus{}, fmt.Errorf("provider ID %s is that of machine %s: choose another, or leave it out", want.ProviderID, m.Name)
	} else if err := c.update(m, want); err != nil {
		return MachineStatus{}, err
	}
	err := c.settle(m.UID)
	return m.status(), err
}

// update applies the changes that are possible on an existing machine.
func (c *cluster) update(m *machine, want machineSpec) error {
	another := want.Version != "" && want.Version != m.Version && m.did(stepNode)
	if slices.Equal(m.Faults, want.Faults) && !another {
		return nil
	}
	m.Faults, m.dirty = slices.Clone(want.Faults), true
	m.Lost = m.Lost || m.has(infrav1.MachineFaultDiskLost)
	if another {
		m.Version = want.Version
		if err := c.upgrade(m); err != nil {
			return err
		}
	}
	return c.syncFaults(m)
}

// known finds the machine of an object by its provider ID: its own, or that of its
// Node.
func (c *cluster) known(want machineSpec) *machine {
	for _, m := range c.machines {
		if m.ProviderID == want.ProviderID || m.Name == want.Name && m.NodeProviderID == want.ProviderID {
			return m
		}
	}
	return nil
}

func (c *cluster) machine(uid types.UID) *machine {
	for _, m := range c.machines {
		if m.UID == uid {
			return m
		}
	}
	return nil
}

func (c *cluster) deleteMachine(which machineSpec) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.known(which)
	if c.closed {
		return localinfra.ErrClosed
	}
	if m == nil || m.Name != which.Name {
		return nil
	}
	m.sleep()
	c.machines = slices.DeleteFunc(c.machines, func(o *machine) bool { return o == m })
	return errors.Join(c.bury(m), removeFile(filepath.Join(c.dir, machineFile(m.UID))), c.settle(""))
}

func (c *cluster) keepMachine(m *machine) error {
	err := c.sync() // what the machine did must be on disk before the record of it
	if err == nil {
		err = c.noteMachine(m, !c.b.unsynced)
	}
	if err == nil {
		m.dirty = false
	}
	return err
}

// noteMachine writes the record of a machine; without sync it must be synced soon.
func (c *cluster) noteMachine(m *machine, sync bool) error {
	if err := writeJSON(filepath.Join(c.dir, machineFile(m.UID)), m, sync); err != nil {
		return fmt.Errorf("keep the machine: %w", err)
	}
	return nil
}

// onTimer is called by a timer.
func (c *cluster) onTimer(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.machine(uid) == nil {
		return
	}
	if err := c.settle(""); err != nil {
		c.b.log.Error(err, "Continuing with a simulated machine", "simulatedCluster", c.key)
	}
}

func (c *cluster) setTimer(m *machine, at time.Time) {
	m.sleep()
	uid := m.UID
	// In a separate goroutine: a clock may call this synchronously.
	m.timer = c.b.clock.AfterFunc(at.Sub(c.b.clock.Now()), recovery.Func(c.b.ctx, func() { c.b.waking.Start(func() { c.onTimer(uid) }) }))
}
