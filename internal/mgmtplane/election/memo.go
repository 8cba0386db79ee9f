// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"encoding/json"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// remembered is how long a lost member is shown to the others, and noteEvery
	// how often a running member extends that time.
	remembered = 24 * time.Hour
	noteEvery  = time.Hour
)

// memo is the record of a member in addition to its key, for requests after it was
// lost. It expires with its own long lease, so no cleanup is needed.
type memo struct {
	lease clientv3.LeaseID
	noted time.Time
	led   bool
}

func memosOf(folder string) string { return folder + "-remembered" }

// remember writes the memo when it is incomplete, and periodically.
func (m *Membership) remember(ctx context.Context) error {
	m.mu.Lock()
	old, led, self := m.memo, m.led, m.self
	self.LeadsSince = m.since
	m.mu.Unlock()
	if old.led == led && time.Since(old.noted) < noteEvery {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, signTimeout)
	defer cancel()
	lease, err := m.client.Grant(ctx, int64(remembered/time.Second))
	if err != nil {
		return err
	}
	value, err := json.Marshal(self)
	if err != nil {
		return err
	}
	if _, err := m.client.Put(ctx, memosOf(m.folder)+"/"+self.Name, string(value), clientv3.WithLease(lease.ID)); err != nil {
		return err
	}
	m.mu.Lock()
	m.memo = memo{lease.ID, time.Now(), led}
	m.mu.Unlock()
	if old.lease != clientv3.NoLease {
		_, _ = m.client.Revoke(ctx, old.lease) // nothing depends on it any longer; it expires
	}
	return nil
}

// memos reads the memos of all members at a revision.
func memos(ctx context.Context, client *clientv3.Client, folder string, revision int64) ([]Member, error) {
	res, err := get(ctx, client, memosOf(folder), clientv3.WithRev(revision))
	if err != nil {
		return nil, err
	}
	return parse(res.Kvs)
}

// merge adds to the existing members which of them leads, and since when, and
// appends those that only have a memo.
func merge(there, remembered []Member) []Member {
	known := map[string]Member{}
	for _, m := range remembered {
		known[m.Name] = m
	}
	all := make([]Member, 0, len(there)+len(remembered))
	for i, m := range there {
		if m.Leads = i == 0; m.Leads && known[m.Name].Since.Equal(m.Since) {
			m.LeadsSince = known[m.Name].LeadsSince
		}
		delete(known, m.Name)
		all = append(all, m)
	}
	for _, m := range remembered {
		if _, gone := known[m.Name]; gone {
			m.Gone, m.LeadsSince = true, time.Time{}
			all = append(all, m)
		}
	}
	return all
}
