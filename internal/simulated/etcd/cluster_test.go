// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/capstan-dev/capstan/internal/kit/certs"
)

func TestNewNeedsAnAuthorityWithKey(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	leaf, err := ca.Issue(certs.Leaf{CommonName: "x", Client: true, Now: time.Now(), Validity: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		ca   certs.Pair
		want error
	}{"with its key": {ca, nil}, "without its key": {certs.Pair{Cert: ca.Cert}, certs.ErrNoKey}, "no authority": {leaf, certs.ErrNotCA}} {
		if _, err := New(Options{Name: "c", CA: tc.ca}); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", name, err, tc.want)
		}
	}
	if _, err := New(Options{Name: "c"}); err == nil {
		t.Error("without any: no error")
	}
}

func TestClustersHaveTheirIdentity(t *testing.T) {
	t.Parallel()
	ids := map[uint64]string{}
	for _, name := range []string{"one", "two"} {
		c, err := New(Options{Name: name, CA: newCA(t)})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Bootstrap("a", peer(1), ""); err != nil {
			t.Fatal(err)
		}
		m, _ := c.Member("a")
		for _, id := range []uint64{c.State().ClusterID, m.ID} {
			if other := ids[id]; id == 0 || other != "" {
				t.Errorf("%s has ID %d, which %q has", name, id, other)
			}
			ids[id] = name
		}
		again, err := New(Options{Name: "renamed", CA: newCA(t), State: c.State()})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.State(), again.State()); diff != "" {
			t.Errorf("after a restart (-want +got):\n%s", diff)
		}
	}
}

func TestBootstrapStartsOneMember(t *testing.T) {
	t.Parallel()
	c := newCluster(t, State{}, nil)
	if err := c.Healthy(); !errors.Is(err, rpctypes.ErrGRPCTimeout) {
		t.Errorf("without members: got %v", err)
	}
	for range 2 { // a machine that is started again
		if err := c.Bootstrap("a", peer(1), "https://10.0.0.1:2379"); err != nil {
			t.Fatal(err)
		}
	}
	s := c.State()
	if len(s.Members) != 1 || s.Leader != s.Members[0].ID || s.Members[0].Down || s.Members[0].Learner {
		t.Errorf("got %+v, want one member that leads", s)
	}
	if err := c.Bootstrap("b", peer(2), ""); err == nil {
		t.Error("a second cluster is started")
	}
	if err := c.Healthy(); err != nil {
		t.Error(err)
	}
	if _, ok := c.Member("b"); ok {
		t.Error("a member that was refused is there")
	}
}

// TestMachinesJoinAsLearners has each step repeated, as after a restart of the process.
func TestMachinesJoinAsLearners(t *testing.T) {
	t.Parallel()
	c := newCluster(t, State{}, nil)
	if _, err := c.AddLearner(peer(2)); !errors.Is(err, rpctypes.ErrGRPCTimeout) {
		t.Errorf("without a quorum: got %v", err)
	}
	if err := c.Bootstrap("a", peer(1), ""); err != nil {
		t.Fatal(err)
	}
	id, err := c.AddLearner(peer(2))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.AddLearner(peer(2)); again != id || err != nil {
		t.Errorf("again: got member %d, error %v, want %d", again, err, id)
	}
	if _, err := c.AddLearner(peer(3)); !errors.Is(err, rpctypes.ErrGRPCTooManyLearners) {
		t.Errorf("another: got %v", err)
	}
	if err := c.Promote(id); !errors.Is(err, rpctypes.ErrGRPCLearnerNotReady) {
		t.Errorf("before it runs: got %v", err)
	}
	for range 2 {
		if err := c.Start(id, "b", "https://10.0.0.2:2379"); err != nil {
			t.Fatal(err)
		}
		index := c.State().Index
		if err := c.Start(id, "b", "https://10.0.0.2:2379"); err != nil || c.State().Index != index {
			t.Errorf("again: error %v, index %d, want %d", err, c.State().Index, index)
		}
		if err := c.Promote(id); err != nil {
			t.Fatal(err)
		}
	}
	b, ok := c.Member("b")
	if !ok || b.Learner || b.Down || b.ID != id || !cmp.Equal(b.ClientURLs, []string{"https://10.0.0.2:2379"}) {
		t.Errorf("got %+v", b)
	}
	for what, err := range map[string]error{"start": c.Start(7, "x", ""), "promote": c.Promote(7)} {
		if !errors.Is(err, rpctypes.ErrGRPCMemberNotFound) {
			t.Errorf("%s an unknown member: got %v", what, err)
		}
	}
}

func TestLeaderIsOneThatCanLead(t *testing.T) {
	t.Parallel()
	c := newCluster(t, voters(3, nil), nil)
	for _, step := range []struct {
		what   string
		do     func()
		leader uint64
		terms  uint64 // elections
	}{
		{"nothing", func() {}, 1, 0},
		{"the leader lags", func() { c.SetLags("a", true) }, 2, 1},
		{"it still lags", func() { c.SetLags("a", true) }, 2, 0},
		{"it is up with the others", func() { c.SetLags("a", false) }, 2, 0},
		{"the leader stops", func() { c.SetRunning("b", false) }, 1, 1},
		{"another stops", func() { c.SetRunning("c", false) }, 0, 0},
		{"one starts", func() { c.SetRunning("b", true) }, 1, 1},
		{"all that run lag", func() { c.SetLags("a", true); c.SetLags("b", true) }, 2, 1},
		{"one that is unknown stops", func() { c.SetRunning("x", false); c.SetLags("x", true); c.SetFull("x", true) }, 2, 0},
	} {
		before := c.State().Term
		step.do()
		if s := c.State(); s.Leader != step.leader || s.Term != before+step.terms {
			t.Errorf("%s: %d leads after %d elections, want %d after %d", step.what, s.Leader, s.Term-before, step.leader, step.terms)
		}
		if err := c.Healthy(); (err == nil) != (step.leader != 0) {
			t.Errorf("%s: healthy: %v", step.what, err)
		}
	}
}
