// SPDX-License-Identifier: Apache-2.0

// Package election lets the planes that share a store find each other, and elects
// one of them as leader: the oldest member.
//
// Each has one key in etcd, which is deleted with its lease: no member writes
// anything while nothing changes, and a watch notifies the members that wait.
package election

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
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
)

const (
	// ttl is the time after the last heartbeat when etcd treats a member as lost.
	// The heartbeat period is a third of it. Another member must lead within 15 s
	// of the loss of one: etcd needs up to a second to detect the loss, and a busy
	// member some time to start.
	ttl = 9 * time.Second
	// lostAfter is the time when a member without contact to etcd treats itself as
	// lost: so long before ttl that its pending writes are complete before another
	// one leads.
	lostAfter = 6 * time.Second
	// signEvery is the heartbeat period of a member, and signTimeout how long it
	// waits for the response to one before it sends another.
	signEvery, signTimeout = ttl / 3, ttl / 3
	// againAfter is how long a lost member waits before it tries again.
	againAfter = time.Second
	// callTimeout is for one call of etcd, in all that a start waits for.
	callTimeout = 10 * time.Second
)

// Member is the description of a plane for the others.
type Member struct {
	// Name is the name of its data directory, as long as the directory exists.
	Name string `json:"name"`
	// Host is the name of its computer, Dir the data directory there.
	Host string `json:"host"`
	Dir  string `json:"dir"`
	// Address is the host and port of its API server.
	Address string `json:"address"`
	// Version is the version of the program.
	Version string `json:"version,omitempty"`
	// Since is when it joined.
	Since time.Time `json:"since"`
	// Leads is whether its controllers act, LeadsSince when they started, by its
	// own clock; and Gone whether it was lost, within a day: a stopped plane is no
	// longer a member. Join reads none of these.
	Leads      bool      `json:"leads"`
	LeadsSince time.Time `json:"leadsSince,omitzero"`
	Gone       bool      `json:"gone,omitempty"`
}

// Membership is the membership of one plane, from Join to Leave.
type Membership struct {
	client *clientv3.Client
	folder string
	self   Member
	stop   context.CancelFunc
	ended  chan struct{}

	elected chan struct{} // closed when it leads
	lost    chan struct{} // closed when it has led, and another one may

	mu    sync.Mutex // guards what follows
	lease clientv3.LeaseID
	led   bool
	sign  time.Duration // when the last heartbeat was sent that etcd has answered; see uptime
	since time.Time     // when it started to lead
	memo  memo
}

// Join makes self a member of the planes whose keys in etcd have a prefix. An
// earlier membership by the same name ends. The caller must not close the client
// until it has left.
func Join(ctx context.Context, client *clientv3.Client, prefix string, self Member) (*Membership, error) {
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	m := &Membership{client: client, folder: Folder(prefix) + "/members", self: self, stop: stop,
		ended: make(chan struct{}), elected: make(chan struct{}), lost: make(chan struct{})}
	if err := m.dropFormer(ctx); err != nil {
		stop()
		return nil, fmt.Errorf("end the former membership of %s: %w", self.Name, err)
	}
	if err := m.enter(ctx); err != nil {
		stop()
		return nil, fmt.Errorf("join the planes of the store: %w", err)
	}
	go m.keep(run)
	return m, nil
}

// Folder is the prefix of the keys of members, next to the prefix of the keys of
// their API servers.
func Folder(prefix string) string { return path.Clean("/"+prefix) + "-capstan" }

// Elected is closed once this member leads.
func (m *Membership) Elected() <-chan struct{} { return m.elected }

// Lost is closed once this member has led and cannot be sure of it any longer. It
// is then no longer a member.
func (m *Membership) Lost() <-chan struct{} { return m.lost }

// MayAct returns an error once this member has led and cannot be sure of it any
// longer. Unlike Lost it is never late: after a process was stopped for a while, or
// a host was suspended, the first call detects it. For a member that has not led
// there is nothing to check.
func (m *Membership) MayAct() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.led && uptime()-m.sign >= lostAfter {
		return lifecycle.ErrDeposed
	}
	return nil
}

// uptime is the time since the host was started, including suspended time, which
// Go's own clock omits.
func uptime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // all Linux versions that run Go have it
	}
	return time.Duration(t.Nano())
}

// Leave ends the membership: if it led, another one does immediately.
func (m *Membership) Leave(ctx context.Context) error {
	m.stop()
	<-m.ended
	select {
	case <-m.lost: // its lease has ended, and etcd may not answer for a long time
		return nil
	default:
	}
	m.mu.Lock()
	lease, memo := m.lease, m.memo.lease
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var errs []error
	for _, id := range []clientv3.LeaseID{lease, memo} {
		if id == clientv3.NoLease {
			continue // it was lost before its memo was written
		}
		if _, err := m.client.Revoke(ctx, id); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			errs = append(errs, fmt.Errorf("leave the planes of the store: %w", err))
		}
	}
	return errors.Join(errs...)
}

// List returns the members, the leader first.
func (m *Membership) List(ctx context.Context) ([]Member, error) {
	return list(ctx, m.client, m.folder)
}

// List returns the members of a prefix, the leader first, for a plane that is not a
// member yet.
func List(ctx context.Context, client *clientv3.Client, prefix string) ([]Member, error) {
	return list(ctx, client, Folder(prefix)+"/members")
}

func list(ctx context.Context, client *clientv3.Client, folder string) ([]Member, error) {
	res, err := get(ctx, client, folder)
	var all, remembered []Member
	if err == nil {
		if all, err = parse(res.Kvs); err == nil {
			remembered, err = memos(ctx, client, folder, res.Header.Revision)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list the planes of the store: %w", err)
	}
	return merge(all, remembered), nil
}

func parse(kvs []*mvccpb.KeyValue) ([]Member, error) {
	all := make([]Member, len(kvs))
	for i, kv := range kvs {
		if err := json.Unmarshal(kv.Value, &all[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", kv.Key, err)
		}
	}
	return all, nil
}

// get reads the keys of all members, the oldest first.
func get(ctx context.Context, client *clientv3.Client, folder string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return client.Get(ctx, folder+"/", append(opts, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))...)
}

// dropFormer removes what a killed process has left: only one process at a time
// uses the data directory, so no running process has this name.
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

// enter creates a lease and writes the key.
func (m *Membership) enter(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	began := uptime()
	lease, err := m.client.Grant(ctx, int64(ttl/time.Second))
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.lease, m.sign = lease.ID, began
	m.mu.Unlock()
	value, err := json.Marshal(m.self)
	if err != nil {
		return err
	}
	_, err = m.client.Put(ctx, m.key(), string(value), clientv3.WithLease(lease.ID))
	return err
}

// live sends heartbeats until the lease has expired in etcd, or ctx ends. The time
// when a heartbeat was sent counts, not when its response was read: the process may
// have been stopped in between for longer than the lease lasts.
func (m *Membership) live(ctx context.Context, lease clientv3.LeaseID) {
	tick := time.NewTicker(signEvery)
	defer tick.Stop()
	for {
		begun := uptime()
		if err := m.signal(ctx, lease); err == nil {
			m.mu.Lock()
			m.sign = begun
			m.mu.Unlock()
			if err := m.remember(ctx); err != nil && ctx.Err() == nil {
				klog.ErrorS(err, "Having the store remember this plane", "member", m.self.Name)
			}
		} else if errors.Is(err, rpctypes.ErrLeaseNotFound) || ctx.Err() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (m *Membership) signal(ctx context.Context, lease clientv3.LeaseID) error {
	ctx, cancel := context.WithTimeout(ctx, signTimeout)
	defer cancel()
	_, err := m.client.KeepAliveOnce(ctx, lease)
	return err
}

// silent is how much longer it may have no contact before it counts as lost.
func (m *Membership) silent() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sign + lostAfter - uptime()
}

// keep stays a member until run ends. A lost leader does not rejoin automatically:
// what acted on its behalf has to end first.
func (m *Membership) keep(run context.Context) {
	defer close(m.ended)
	for {
		led := m.hold(run)
		if run.Err() != nil {
			return
		}
		if led {
			close(m.lost)
			return
		}
		for entered := false; !entered; {
			if lifecycle.Sleep(run, againAfter) != nil {
				return
			}
			err := m.enter(run)
			if entered = err == nil; !entered {
				klog.ErrorS(err, "Joining the planes of the store again", "member", m.self.Name)
			}
		}
	}
}

// hold returns when the membership of a lease ends, and whether this member led
// then.
func (m *Membership) hold(run context.Context) (led bool) {
	ctx, cancel := context.WithCancel(run)
	defer cancel()
	first, gone, dead := make(chan struct{}), make(chan error, 1), make(chan struct{})
	go func() { gone <- m.watch(ctx, first) }()
	m.mu.Lock()
	lease := m.lease
	m.mu.Unlock()
	go func() { defer close(dead); m.live(ctx, lease) }()
	defer func() { cancel(); <-dead }() // a later heartbeat would count for the next lease
	silence := time.NewTimer(m.silent())
	defer silence.Stop()
	for {
		select {
		case <-dead:
			return led
		case <-silence.C:
			left := m.silent()
			if left <= 0 {
				return led
			}
			silence.Reset(left)
		case err := <-gone:
			if run.Err() == nil {
				klog.ErrorS(err, "Watching the planes of the store", "member", m.self.Name)
			}
			return led
		case <-first:
			first, led = nil, true
			m.lead()
		case <-run.Done():
			return led
		}
	}
}

// lead records that this member leads from now on.
func (m *Membership) lead() {
	m.mu.Lock()
	m.led, m.since = true, time.Now()
	m.mu.Unlock()
	close(m.elected)
	klog.InfoS("Leading the planes of the store", "member", m.self.Name)
}

// watch closes first once no member is older. It returns when it can no longer
// determine the oldest member, or when others changed the key of this member.
func (m *Membership) watch(ctx context.Context, first chan<- struct{}) error {
	for {
		res, err := get(ctx, m.client, m.folder)
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

// awaitEvent returns after an event of a key.
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
