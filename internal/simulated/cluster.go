// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
	"github.com/capstan-dev/capstan/internal/simulated/etcd"
	"github.com/capstan-dev/capstan/internal/simulated/statedir"
	"github.com/capstan-dev/capstan/internal/simulated/workloads"
)

// syncAfter is how much of what clients have written a loss of power may cost.
const syncAfter = time.Second

// cluster is one simulated cluster.
type cluster struct {
	b     *Backend
	key   types.NamespacedName
	uid   types.UID // its identity
	dir   string
	place *place
	held  *statedir.Held
	owner types.UID // of the object for which it runs; "" if unknown

	// What requests to the API server read without the lock.
	answer  atomic.Int32 // an apiserver.Fault
	skew    atomic.Int64 // how far the clock of the API server is ahead
	version atomic.Value // string
	members atomic.Pointer[etcd.Cluster]

	mu        sync.Mutex // guards all below
	record    record
	kept      record // as it is in its file
	loose     bool   // that file may not survive a loss of power
	server    *apiserver.Server
	journal   *store.File
	work      *workloads.Controllers // nil until it has been founded
	listening bool
	machines  []*machine // in the order in which they were created
	closed    bool
}

// of reports whether the cluster runs for an object, as far as is known.
func (c *cluster) of(which clusterSpec) bool {
	return which.Owner == "" || c.owner == "" || which.Owner == c.owner
}

// newCluster opens the stored state of a cluster, or starts one that has none.
func newCluster(b *Backend, r, kept record, p *place) (*cluster, error) {
	c := &cluster{b: b, key: r.key(), uid: r.UID, dir: b.clusterDir(r.UID), place: p, record: r, kept: kept}
	c.record.Host = p.host
	c.version.Store("v0.0.0")
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := recovery.Call(b.ctx, func() error { // what was stored is users'
		if err := c.open(); err != nil {
			return err
		}
		return c.settle("")
	}); err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

// open creates the API server with its objects, and configures it with the
// cluster's keys if it has them.
func (c *cluster) open() error {
	if c.record.Founder != "" {
		if err := mustExist(filepath.Join(c.dir, journalFile)); err != nil {
			return err
		}
	}
	c.journal = store.FileAt(filepath.Join(c.dir, journalFile), c.b.log)
	if !c.b.unsynced {
		c.journal.Follow(c.syncSoon(c.journal))
	}
	server, err := apiserver.New(apiserver.Options{
		Name: c.key.String(), Clock: skewed{c.b.clock, &c.skew}, Log: c.b.log,
		Journal:     c.journal,
		Version:     func() string { return c.version.Load().(string) },
		Answer:      func() apiserver.Fault { return apiserver.Fault(c.answer.Load()) },
		PortForward: c.portForward,
	})
	if errors.Is(err, store.ErrDamaged) {
		err = damaged(err)
	}
	if err != nil {
		return err
	}
	c.server = server
	if c.record.Founder != "" {
		if err := c.trust(); err != nil {
			return err
		}
		c.startWork()
	}
	if c.machines, err = readMachines(c.dir); err != nil {
		return err
	}
	slices.SortFunc(c.machines, func(a, b *machine) int { return a.Index - b.Index })
	for _, m := range c.machines {
		if m.Namespace != c.key.Namespace || m.Cluster != c.key.Name { // it was moved
			m.Namespace, m.Cluster, m.dirty = c.key.Namespace, c.key.Name, true
		}
	}
	return nil
}

// ensure applies the desired state, and returns the endpoint.
func (c *cluster) ensure(want clusterSpec) (clusterv1.APIEndpoint, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return clusterv1.APIEndpoint{}, localinfra.ErrClosed
	}
	have := c.place.endpoint()
	if !want.Endpoint.IsZero() && (want.Endpoint.Host != have.Host || want.Endpoint.Port != 0 && want.Endpoint.Port != have.Port) {
		return clusterv1.APIEndpoint{}, fmt.Errorf("controlPlaneEndpoint is %s:%d and cannot become %s:%d", have.Host, have.Port, want.Endpoint.Host, want.Endpoint.Port)
	}
	if slices.Equal(c.record.Faults, want.Faults) {
		return have, nil
	}
	c.record.Faults = slices.Clone(want.Faults)
	return have, c.settle("")
}

// close stops the cluster and leaves what is kept of it.
func (c *cluster) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.stop()
	return errors.Join(c.sync(), c.keep(), c.place.close())
}

// stop ends what the cluster has started.
func (c *cluster) stop() {
	c.closed = true
	for _, m := range c.machines {
		m.sleep()
	}
	c.stopServing()
}

// stopServing ends the API server, controllers and etcd members.
func (c *cluster) stopServing() {
	c.stopListening()
	if c.server != nil {
		c.server.Close()
	}
	if c.work != nil {
		c.work.Close()
		c.work = nil
	}
	if e := c.members.Load(); e != nil {
		e.Close()
	}
}

// sync has the objects on the disk, unless nothing need outlive the host.
func (c *cluster) sync() error {
	if c.b.unsynced {
		return nil
	}
	return c.journal.Sync()
}

// syncSoon returns a function that syncs a journal a moment after a write to it:
// many writes come together.
func (c *cluster) syncSoon(j *store.File) func() {
	return func() {
		time.AfterFunc(syncAfter, recovery.Func(c.b.ctx, func() {
			if err := j.Sync(); err != nil {
				c.b.log.Error(err, "Syncing the objects of a simulated cluster", "simulatedCluster", c.key)
			}
		}))
	}
}

// startWork starts the controllers that run next to the API server.
func (c *cluster) startWork() {
	c.work = workloads.Start(workloads.Options{
		Store: c.server.Store(), Clock: c.b.clock, Log: c.b.log, CA: c.record.PKI.CA, Inline: c.b.stepped,
	})
}

// keep writes the record down if it has changed.
func (c *cluster) keep() error { return c.write(!c.b.unsynced) }

// note writes the record down as it is for a moment: what follows keeps it. It
// outlives the process, not a loss of power.
func (c *cluster) note() error { return c.write(false) }

func (c *cluster) write(sync bool) error {
	if e := c.members.Load(); e != nil {
		c.record.Etcd = e.State()
	}
	if same(c.record, c.kept) && !(sync && c.loose) {
		return nil
	}
	c.record.Version = formatVersion
	if err := writeJSON(filepath.Join(c.dir, clusterFile), c.record, sync); err != nil {
		return fmt.Errorf("keep the cluster: %w", err)
	}
	c.loose = !sync
	c.kept = c.record
	c.kept.Faults = slices.Clone(c.record.Faults)
	return nil
}

// same compares what can change in a record.
func same(a, b record) bool {
	return a.UID == b.UID && a.key() == b.key() && a.Address == b.Address && a.Host == b.Host && a.Machines == b.Machines && a.Founder == b.Founder &&
		a.External == b.External && bytes.Equal(a.Serving.Cert, b.Serving.Cert) && slices.Equal(a.Faults, b.Faults) && sameEtcd(a.Etcd, b.Etcd)
}

func sameEtcd(a, b etcd.State) bool {
	if a.ClusterID != b.ClusterID || a.Term != b.Term || a.Index != b.Index || a.Leader != b.Leader || len(a.Members) != len(b.Members) {
		return false
	}
	for i := range a.Members {
		if m, n := a.Members[i], b.Members[i]; m.ID != n.ID || m.Down != n.Down || m.Learner != n.Learner || m.Lags != n.Lags {
			return false
		}
	}
	return true
}

// settle lets every machine proceed as far as it can, since what one does may be
// what another waits for, and reports those whose status changed, except for the
// one whose caller gets it as a result. At its end everything is kept.
func (c *cluster) settle(except types.UID) error {
	var errs []error
	for again := true; again; {
		again = false
		for _, m := range slices.Clone(c.machines) {
			moved, err := c.advance(m)
			if err != nil {
				errs = append(errs, fmt.Errorf("machine %s: %w", m.Name, err))
			}
			again = again || moved && err == nil
		}
		if err := c.refresh(); err != nil {
			errs = append(errs, err)
			break
		}
	}
	if c.work != nil {
		c.work.Reconcile() // where no caller waits for the clock, this advances their time
	}
	for _, m := range c.machines {
		if s := m.status(); !s.equal(m.told) {
			m.told = s
			if m.UID != except {
				c.b.machines.Publish(m.key())
			}
		}
	}
	// The cluster first: a machine that is behind it does its steps again, one
	// that is ahead of it would have no etcd member.
	errs = append(errs, c.keep())
	for _, m := range c.machines {
		if m.dirty {
			errs = append(errs, c.keepMachine(m))
		}
	}
	return errors.Join(errs...)
}

// refresh sets how the API server answers, or that it does not, from the state of
// its machines.
func (c *cluster) refresh() error {
	var started, serving []*machine
	for _, m := range c.machines {
		if m.did(stepAPIServer) {
			started = append(started, m)
		}
		if c.serves(m) {
			serving = append(serving, m)
		}
	}
	answer := c.serverFault()
	if len(serving) == 0 || c.quorum() != nil {
		answer |= apiserver.Hang
	}
	if c.b.stepped { // where no caller waits for time to pass
		if answer &^= apiserver.Slow; answer.Has(apiserver.Hang) {
			answer = apiserver.Refuse
		}
	}
	if v := lowest(started); v != "" {
		c.version.Store(v)
	}
	listen := len(started) > 0 && !answer.Has(apiserver.Refuse)
	was := apiserver.Fault(c.answer.Swap(int32(answer)))
	if was != answer {
		c.server.Recheck()
	}
	return c.listen(listen)
}

func (c *cluster) listen(wanted bool) error {
	if wanted == c.listening {
		return nil
	}
	if !wanted {
		c.stopListening()
		return nil
	}
	if _, err := c.b.listeners.Open(c.place.addr, c.server); err != nil {
		return err
	}
	c.b.guard.ServeLoopback(c.place.addr)
	c.listening = true
	return nil
}

func (c *cluster) stopListening() {
	c.b.guard.Stop(c.place.addr) // first: another process may listen there next
	c.b.listeners.Shut(c.place.addr)
	c.listening = false
}

// answers returns nil if a client would get an answer now, else the reason.
func (c *cluster) answers() error {
	at := "https://" + c.place.addr.String()
	switch {
	case !c.listening:
		return &url.Error{Op: "Get", URL: at, Err: fmt.Errorf("dial tcp %s: connect: connection refused", c.place.addr)}
	case apiserver.Fault(c.answer.Load()).Has(apiserver.Hang):
		return &url.Error{Op: "Get", URL: at, Err: context.DeadlineExceeded}
	}
	return nil
}

// serves reports whether the machine's API server works.
func (c *cluster) serves(m *machine) bool {
	return m.did(stepAPIServer) && c.runs(m, "kube-apiserver")
}

// etcdRuns reports whether the machine's etcd runs; an external etcd always does.
func (c *cluster) etcdRuns(m *machine) bool {
	e := c.members.Load()
	if e == nil {
		return c.record.External
	}
	member, ok := e.Member(m.NodeName)
	return ok && !member.Down
}

func (c *cluster) quorum() error {
	if e := c.members.Load(); e != nil {
		return e.Healthy()
	}
	return nil
}

// etcdChanged is called by the etcd cluster after clients changed it.
func (c *cluster) etcdChanged() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	var errs []error
	for _, m := range c.machines {
		errs = append(errs, c.syncPods(m))
	}
	if err := errors.Join(append(errs, c.settle(""))...); err != nil {
		c.b.log.Error(err, "Following a change of etcd", "simulatedCluster", c.key)
	}
}
