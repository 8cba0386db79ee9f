// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/simulated/statedir"
)

// cluster finds the cluster of a machine, and opens it if it is not open yet.
// MachineChanges sends the machine when the cluster is available.
func (b *Backend) cluster(of machineSpec) (*cluster, error) {
	key := types.NamespacedName{Namespace: of.Namespace, Name: of.Cluster}
	b.mu.Lock()
	c := b.clusters[key]
	closed := b.closed
	if c == nil && !closed {
		b.ask(of, false)
	}
	b.mu.Unlock()
	switch {
	case closed:
		return nil, localinfra.ErrClosed
	case c != nil:
		return c, nil
	case of.ClusterUID == "":
		return nil, localinfra.ErrNoCluster
	}
	return b.openCluster(clusterSpec{Namespace: key.Namespace, Name: key.Name, UID: of.ClusterUID, Made: true, Known: true})
}

// ask registers a machine to be sent by MachineChanges when its cluster runs; with
// again, also if the cluster could not be opened. Called with the lock.
func (b *Backend) ask(of machineSpec, again bool) {
	key := types.NamespacedName{Namespace: of.Namespace, Name: of.Cluster}
	if b.asked[key] == nil {
		b.asked[key] = map[types.NamespacedName]bool{}
	}
	b.asked[key][of.Key()] = again
}

// opens reports whether another call is opening or closing the cluster of a
// machine. MachineChanges sends the machine when that is done: machines of other
// clusters do not wait behind it.
func (b *Backend) opens(of machineSpec) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	is := !b.closed && (b.busy[string(of.ClusterUID)] || b.busy[of.Namespace+"/"+of.Cluster])
	if is {
		b.ask(of, true)
	}
	return is
}

// alone waits until no other call opens or closes a cluster of this identity or
// name, and blocks such calls until done is called: slow work continues without the
// lock. Called with the lock.
func (b *Backend) alone(which clusterSpec) (done func()) {
	for {
		names := []string{string(which.UID)}
		if which.Name != "" {
			names = append(names, which.Key().String())
		}
		for _, c := range []*cluster{b.byUID[which.UID], b.clusters[which.Key()]} {
			if c != nil {
				names = append(names, string(c.uid), c.key.String())
			}
		}
		if !slices.ContainsFunc(names, func(name string) bool { return b.busy[name] }) {
			for _, name := range names {
				b.busy[name] = true
			}
			return func() {
				for _, name := range names {
					delete(b.busy, name)
				}
				b.settled.Broadcast()
			}
		}
		b.settled.Wait()
	}
}

// unlocked does what others need not wait for. Called with the lock.
func (b *Backend) unlocked(do func() error) error {
	b.mu.Unlock()
	defer b.mu.Lock()
	return do()
}

// openCluster finds the cluster or its stored state, or creates a new one.
func (b *Backend) openCluster(want clusterSpec) (c *cluster, err error) {
	if want.Namespace == "" || want.Name == "" || want.UID == "" {
		return nil, errors.New("namespace, name and identity are needed")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.alone(want)()
	if b.closed {
		return nil, localinfra.ErrClosed
	}
	if c := b.byUID[want.UID]; c != nil {
		if c.key != want.Key() {
			return nil, &localinfra.HeldError{Holder: "cluster " + c.key.String()}
		}
		c.owner = cmp.Or(want.Owner, c.owner)
		return c, nil
	}
	// Another of the same name is left from an earlier object: its deletion was
	// never requested.
	if other := b.clusters[want.Key()]; other != nil {
		if err := b.release(other); err != nil {
			return nil, err
		}
	}
	err = b.unlocked(func() error {
		c, err = b.take(want)
		return err
	})
	for machine, again := range b.asked[want.Key()] {
		if err == nil || again {
			b.asked[want.Key()][machine] = false
			b.machines.Publish(machine)
		}
	}
	if err != nil {
		return nil, err
	}
	b.clusters[c.key], b.byUID[c.uid] = c, c
	delete(b.asked, c.key)
	return c, nil
}

// take holds what is kept of a cluster, and opens it.
func (b *Backend) take(want clusterSpec) (*cluster, error) {
	held, err := b.dir.Take(string(want.UID), !want.Made)
	if err != nil {
		return nil, b.elsewhere(want, err)
	}
	c, err := b.load(want, held)
	if err != nil {
		return nil, errors.Join(err, held.Close())
	}
	return c, nil
}

// elsewhere explains why a cluster cannot be opened. One that another process runs
// is reported when it is free.
func (b *Backend) elsewhere(want clusterSpec, err error) error {
	if errors.Is(err, statedir.ErrNone) {
		return fmt.Errorf("%w: there is no %s", localinfra.ErrNotHere, b.clusterDir(want.UID))
	}
	held, ok := errors.AsType[*statedir.HeldError](err)
	if !ok {
		return err
	}
	if want.Object.Name != "" {
		if err := b.dir.Await(string(want.UID), func() { b.free.Publish(want.Object) }); err != nil {
			return err
		}
	}
	return &localinfra.HeldError{Holder: held.Holder}
}

// load reads the stored state of a cluster that is held, or starts one that has
// none.
func (b *Backend) load(want clusterSpec, held *statedir.Held) (*cluster, error) {
	kept, err := readRecord(b.clusterDir(want.UID), want)
	if err != nil {
		return nil, err
	}
	if err := sweep(b.clusterDir(want.UID)); err != nil {
		return nil, err
	}
	if want.Known && kept.key() != want.Key() {
		return nil, localinfra.ErrNoCluster // until its LocalCluster reports it
	}
	r := kept
	r.Namespace, r.Name = want.Namespace, want.Name // which differ if it was moved
	if kept.UID == "" {
		r.UID, r.Faults = want.UID, want.Faults
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
	c.held, c.owner = held, want.Owner
	return c, nil
}

// release stops a cluster and releases its folder. Called with the lock.
func (b *Backend) release(c *cluster) error {
	delete(b.clusters, c.key)
	delete(b.byUID, c.uid)
	return b.unlocked(func() error { return errors.Join(c.close(), c.held.Release()) })
}

// drop deletes a cluster, whether it has been opened or not. One that another
// process runs, waits for, or has run and not released belongs to that process.
func (b *Backend) drop(which clusterSpec) error {
	uid := which.UID
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.alone(which)()
	if b.closed {
		return localinfra.ErrClosed
	}
	b.dir.Forget(string(uid))
	if c := b.byUID[uid]; c != nil {
		if !c.of(which) {
			return nil
		}
		if c.held.Wanted() {
			b.log.Info("Leaving a simulated cluster to who waits for it", "cluster", c.key, "identity", uid)
			return b.release(c)
		}
		err := b.unlocked(func() error {
			return errors.Join(c.close(), b.dir.Free(c.place.addr, string(uid)), c.held.Delete())
		})
		if err == nil {
			delete(b.clusters, c.key)
			delete(b.byUID, uid)
		}
		return err
	}
	return b.unlocked(func() error { return b.dropIdle(uid) })
}

// dropIdle deletes a cluster that does not run here.
func (b *Backend) dropIdle(uid types.UID) error {
	held, err := b.dir.Take(string(uid), false)
	if errors.Is(err, statedir.ErrNone) {
		return nil
	}
	if other, ok := errors.AsType[*statedir.HeldError](err); ok {
		b.log.Info("Leaving a simulated cluster to who runs it", "holder", other.Holder, "identity", uid)
		return nil
	}
	if err != nil {
		return err
	}
	switch {
	case held.Before != "":
		b.log.Info("Leaving a simulated cluster to who ran it last", "holder", held.Before, "identity", uid)
		return held.Leave()
	case held.Wanted():
		return held.Release()
	}
	return held.Delete()
}
