// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"fmt"
	"net"
	"slices"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/internal/kit/certs"
)

// Options define an etcd cluster.
type Options struct {
	// Name gives the cluster its identity: two clusters of different names
	// have different IDs.
	Name string
	// CA is the cluster's etcd CA: it signs the members' certificates, and
	// clients must show one of its.
	CA certs.Pair
	// Clock dates certificates; the real one if nil.
	Clock clock.PassiveClock
	// State is what an earlier Cluster's State was; zero for a new cluster.
	State State
	// Changed is called, outside any lock, after each change of the state through a
	// connection. May be nil.
	Changed func()
}

// Cluster is a simulated etcd cluster. Its methods may be called by several
// goroutines.
type Cluster struct {
	ca      certs.Pair
	clock   clock.PassiveClock
	changed func()

	mu    sync.Mutex
	state State
	certs map[uint64]*served
}

// New creates a cluster from its options. It starts nothing.
func New(o Options) (*Cluster, error) {
	if err := o.CA.Check(certs.Etcd); err != nil {
		return nil, fmt.Errorf("etcd CA of %s: %w", o.Name, err)
	}
	if !o.CA.HasKey() {
		return nil, fmt.Errorf("etcd CA of %s: %w", o.Name, certs.ErrNoKey)
	}
	c := &Cluster{ca: o.CA, clock: o.Clock, changed: o.Changed, state: o.State.clone(), certs: map[uint64]*served{}}
	if c.clock == nil {
		c.clock = clock.RealClock{}
	}
	if c.changed == nil {
		c.changed = func() {}
	}
	if c.state.ClusterID == 0 {
		c.state.ClusterID = identity(o.Name)
	}
	return c, nil
}

// State is a copy of the state that the cluster must persist.
func (c *Cluster) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.clone()
}

// Healthy returns nil if the cluster has a quorum, else etcd's error.
func (c *Cluster) Healthy() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.writable()
}

// Member is the member of that name, and whether there is one.
func (c *Cluster) Member(name string) (Member, bool) {
	s := c.State()
	m := s.named(name)
	if m == nil {
		return Member{}, false
	}
	return *m, true
}

// Bootstrap starts the first member. A cluster that has members refuses.
func (c *Cluster) Bootstrap(name, peerURL, clientURL string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.state.Members) > 0 {
		if m := c.state.named(name); m != nil && len(c.state.Members) == 1 {
			return nil
		}
		return fmt.Errorf("bootstrap etcd member %s: the cluster has members already", name)
	}
	c.state.Index++
	c.state.Members = []Member{{
		ID: identity(fmt.Sprintf("%x/%s/%d", c.state.ClusterID, peerURL, c.state.Index)), Name: name,
		PeerURLs: []string{peerURL}, ClientURLs: []string{clientURL},
	}}
	c.state.elect()
	return nil
}

// AddLearner registers a learner for peerURL, or finds the one that is there
// already for it, and gives its ID.
func (c *Cluster) AddLearner(peerURL string) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.state.writable(); err != nil {
		return 0, err
	}
	for _, m := range c.state.Members {
		if len(m.PeerURLs) == 1 && m.PeerURLs[0] == peerURL {
			return m.ID, nil
		}
	}
	m, err := c.state.add([]string{peerURL}, true)
	if err != nil {
		return 0, err
	}
	return m.ID, nil
}

// Start runs the process of a member that was added, under that name.
func (c *Cluster) Start(id uint64, name, clientURL string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.state.member(id)
	if m == nil {
		return rpctypes.ErrGRPCMemberNotFound
	}
	if m.Name == name && !m.Down {
		return nil
	}
	m.Name, m.ClientURLs, m.Down = name, []string{clientURL}, false
	c.state.Index++
	c.state.elect()
	return nil
}

// Promote makes a started learner a voting member. It returns nil for a member that
// votes already.
func (c *Cluster) Promote(id uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.state.member(id); m != nil && !m.Learner {
		return nil
	}
	return c.state.promote(id)
}

// SetRunning starts or stops the process of the member of that name and reports
// whether that changed anything. Stopping closes its connections; the member stays
// a member until a client removes it.
func (c *Cluster) SetRunning(name string, running bool) (changed bool) {
	var cut []net.Conn
	c.mu.Lock()
	if m := c.state.named(name); m != nil && m.Down == running {
		m.Down = !running
		c.state.elect()
		changed = true
		if !running {
			cut = c.forget(m.ID)
		}
	}
	c.mu.Unlock()
	closeAll(cut)
	return changed
}

// SetLags puts the member of that name behind the others, or up with them.
func (c *Cluster) SetLags(name string, lags bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.state.named(name); m != nil && m.Lags != lags {
		m.Lags = lags
		c.state.elect()
	}
}

// SetFull raises the alarm NOSPACE of the member of that name, or clears it.
func (c *Cluster) SetFull(name string, full bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.state.named(name)
	if m == nil || m.full() == full {
		return
	}
	c.state.Index++
	if full {
		m.Alarms = append(m.Alarms, noSpace)
		return
	}
	m.Alarms = slices.DeleteFunc(m.Alarms, func(a string) bool { return a == noSpace })
}

// Full reports whether a member has raised the alarm NOSPACE: then nothing is
// stored, by any of them.
func (c *Cluster) Full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.state.Members, func(m Member) bool { return m.full() })
}

// Close cuts all connections.
func (c *Cluster) Close() {
	var cut []net.Conn
	c.mu.Lock()
	for id := range c.certs {
		cut = append(cut, c.forget(id)...)
	}
	c.mu.Unlock()
	closeAll(cut)
}

// change runs a request on the state as the running member id, and reports a
// change of the state.
func (c *Cluster) change(id uint64, f func(*State) error) (State, error) {
	before, after, cut, err := c.changeState(id, f)
	closeAll(cut)
	if after.Index != before {
		c.changed()
	}
	return after, err
}

// changeState returns the index before a change, the state after it, and the
// connections that are no longer served.
func (c *Cluster) changeState(id uint64, f func(*State) error) (before uint64, after State, cut []net.Conn, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.state.member(id); m == nil || m.Down { // it cannot answer at all
		return 0, State{}, nil, rpctypes.ErrGRPCStopped
	}
	before = c.state.Index
	err = f(&c.state)
	after = c.state.clone()
	for gone := range c.certs {
		// A member that was removed stops serving, unless it is the one that still
		// must answer.
		if after.member(gone) == nil && gone != id {
			cut = append(cut, c.forget(gone)...)
		}
	}
	return before, after, cut, err
}
