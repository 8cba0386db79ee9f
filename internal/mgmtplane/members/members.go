// SPDX-License-Identifier: Apache-2.0

// Package members has the planes that share a store know each other, and one of
// them lead: the one that has been there longest.
//
// Each keeps one key in etcd, which goes with its lease: no member writes anything
// while nothing changes, and those who wait are woken by a watch.
package members

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/klog/v2"
)

const (
	// ttl is when etcd takes a member for lost that it does not hear of. A third of
	// it passes between two signs of life. Another member shall lead within 15 s of
	// the loss of one, of which etcd takes up to a second to notice, and a busy
	// member some to begin.
	ttl = 9 * time.Second
	// lostAfter is when a member takes itself for lost that hears nothing of etcd:
	// so much before ttl that what it is about to write is written before another
	// one leads.
	lostAfter = 6 * time.Second
	// againAfter is how long a member that was lost waits before it tries again.
	againAfter = time.Second
	// callTimeout is for one call of etcd, in all that a start waits for.
	callTimeout = 10 * time.Second
)

// Member is what a plane says of itself to the others.
type Member struct {
	// Name is that of its data directory, for as long as there is one.
	Name string `json:"name"`
	// Host is the name of its computer, Dir the data directory there.
	Host string `json:"host"`
	Dir  string `json:"dir"`
	// Address is the host and port of its API server.
	Address string `json:"address"`
	// Version is that of the program.
	Version string `json:"version,omitempty"`
	// Since is when it joined.
	Since time.Time `json:"since"`
	// Leads is whether its controllers act. Join does not read it.
	Leads bool `json:"leads"`
}

// Membership is that of one plane, from Join to Leave.
type Membership struct {
	client *clientv3.Client
	folder string
	self   Member
	stop   context.CancelFunc
	ended  chan struct{}

	elected chan struct{} // closed when it leads
	lost    chan struct{} // closed when it has led, and another one may

	mu    sync.Mutex // guards lease
	lease clientv3.LeaseID
}

// Join makes self a member of the planes whose keys in etcd have a prefix. A
// former membership by the same name ends. The caller keeps the client open until
// it has left.
func Join(ctx context.Context, client *clientv3.Client, prefix string, self Member) (*Membership, error) {
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	m := &Membership{client: client, folder: Folder(prefix) + "/members", self: self, stop: stop,
		ended: make(chan struct{}), elected: make(chan struct{}), lost: make(chan struct{})}
	if err := m.dropFormer(ctx); err != nil {
		stop()
		return nil, fmt.Errorf("end the former membership of %s: %w", self.Name, err)
	}
	t, err := m.enter(ctx, run)
	if err != nil {
		stop()
		return nil, fmt.Errorf("join the planes of the store: %w", err)
	}
	go m.keep(run, t)
	return m, nil
}

// Folder is where what planes know of each other lies, beside what their API
// servers keep under a prefix.
func Folder(prefix string) string { return path.Clean("/"+prefix) + "-capstan" }

// Elected is closed once this member leads.
func (m *Membership) Elected() <-chan struct{} { return m.elected }

// Lost is closed once this member has led and cannot be sure of it any more. It
// is no member then.
func (m *Membership) Lost() <-chan struct{} { return m.lost }

// Leave ends the membership: if it led, another one does at once.
func (m *Membership) Leave(ctx context.Context) error {
	m.stop()
	<-m.ended
	m.mu.Lock()
	lease := m.lease
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := m.client.Revoke(ctx, lease); err != nil {
		return fmt.Errorf("leave the planes of the store: %w", err)
	}
	return nil
}

// List returns the members, the one who leads first.
func (m *Membership) List(ctx context.Context) ([]Member, error) {
	res, err := m.get(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the planes of the store: %w", err)
	}
	all := make([]Member, len(res.Kvs))
	for i, kv := range res.Kvs {
		if err := json.Unmarshal(kv.Value, &all[i]); err != nil {
			return nil, fmt.Errorf("list the planes of the store: %s: %w", kv.Key, err)
		}
		all[i].Leads = i == 0
	}
	return all, nil
}

// get reads the keys of all members, the oldest first.
func (m *Membership) get(ctx context.Context) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return m.client.Get(ctx, m.folder+"/", clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
}

// dropFormer ends what a process has left that was killed: the data directory has
// one at a time, so nobody lives who goes by this name.
func (m *Membership) dropFormer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	res, err := m.client.Get(ctx, m.key())
	if err != nil || len(res.Kvs) == 0 {
		return err
	}
	var former Member
	if err := json.Unmarshal(res.Kvs[0].Value, &former); err != nil {
		return fmt.Errorf("%s: %w", m.key(), err)
	}
	if former.Host != m.self.Host || former.Dir != m.self.Dir {
		return fmt.Errorf("it runs on %s in %s, of which %s is a copy: remove the file \"member\" from the copy", former.Host, former.Dir, m.self.Dir)
	}
	_, err = m.client.Delete(ctx, m.key())
	return err
}

func (m *Membership) key() string { return m.folder + "/" + m.self.Name }

// term is a membership that goes with one lease.
type term struct {
	alive <-chan *clientv3.LeaseKeepAliveResponse
	since time.Time // the last sign of life
}

// enter takes a lease that is kept until run ends, and puts the key.
func (m *Membership) enter(ctx, run context.Context) (*term, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	began := time.Now()
	lease, err := m.client.Grant(ctx, int64(ttl/time.Second))
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.lease = lease.ID
	m.mu.Unlock()
	value, err := json.Marshal(m.self)
	if err != nil {
		return nil, err
	}
	if _, err := m.client.Put(ctx, m.key(), string(value), clientv3.WithLease(lease.ID)); err != nil {
		return nil, err
	}
	alive, err := m.client.KeepAlive(run, lease.ID)
	return &term{alive, began}, err
}

// keep stays a member until run ends. Who led and was lost does not come back by
// itself: what acted on its behalf has to end first.
func (m *Membership) keep(run context.Context, t *term) {
	defer close(m.ended)
	for {
		led := m.hold(run, t)
		if run.Err() != nil {
			return
		}
		if led {
			close(m.lost)
			return
		}
		for t = nil; t == nil; {
			select {
			case <-run.Done():
				return
			case <-time.After(againAfter):
			}
			var err error
			if t, err = m.enter(run, run); err != nil {
				t = nil
				klog.ErrorS(err, "Joining the planes of the store again", "member", m.self.Name)
			}
		}
	}
}

// hold returns when the term ends, and whether this member led then.
func (m *Membership) hold(run context.Context, t *term) (led bool) {
	ctx, cancel := context.WithCancel(run)
	defer cancel()
	first, gone := make(chan struct{}), make(chan error, 1)
	go func() { gone <- m.watch(ctx, first) }()
	silence := time.NewTimer(time.Until(t.since.Add(lostAfter)))
	defer silence.Stop()
	for {
		select {
		case _, ok := <-t.alive:
			if !ok {
				return led
			}
			silence.Reset(lostAfter)
		case <-silence.C:
			return led
		case err := <-gone:
			if run.Err() == nil {
				klog.ErrorS(err, "Watching the planes of the store", "member", m.self.Name)
			}
			return led
		case <-first:
			first, led = nil, true
			close(m.elected)
			klog.InfoS("Leading the planes of the store", "member", m.self.Name)
		case <-run.Done():
			return led
		}
	}
}

// watch closes first once no member is older. It returns once it cannot tell who
// is any more, or once the key of this member was touched by others.
func (m *Membership) watch(ctx context.Context, first chan<- struct{}) error {
	for {
		res, err := m.get(ctx)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(res.Kvs, func(kv *mvccpb.KeyValue) bool { return string(kv.Key) == m.key() })
		if at < 0 {
			return errors.New("this one was taken out of the store")
		}
		older := string(res.Kvs[max(at-1, 0)].Key)
		if at == 0 {
			close(first)
		}
		if err := m.awaitEvent(ctx, older, res.Header.Revision+1); err != nil || at == 0 {
			return cmp.Or(err, errors.New("its key was changed by others"))
		}
	}
}

// awaitEvent returns once something happens to a key.
func (m *Membership) awaitEvent(ctx context.Context, key string, revision int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for res := range m.client.Watch(ctx, key, clientv3.WithRev(revision)) {
		if err := res.Err(); err != nil {
			return err
		}
		if len(res.Events) > 0 {
			return nil
		}
	}
	return cmp.Or(ctx.Err(), errors.New("the watch ended"))
}
