// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// voters creates a state of members with IDs 1, 2, …, the first of them leading;
// down lists those that do not run, learners those that do not vote.
func voters(n int, down []uint64, learners ...uint64) State {
	s := State{ClusterID: 99, Term: 1, Index: 10}
	for i := range n {
		id := uint64(i + 1)
		m := Member{ID: id, Name: string(rune('a' + i)), PeerURLs: []string{peer(id)}}
		for _, d := range down {
			m.Down = m.Down || d == id
		}
		for _, l := range learners {
			m.Learner = m.Learner || l == id
		}
		s.Members = append(s.Members, m)
	}
	s.elect()
	return s
}

func peer(id uint64) string { return "https://10.0.0." + string(rune('0'+id)) + ":2380" }

func TestMembershipChangesKeepTheQuorum(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		state   State
		do      func(*State) error
		want    error
		members int
		leader  uint64
	}{
		"a learner joins a healthy cluster":                   {voters(1, nil), func(s *State) error { _, err := s.add([]string{peer(9)}, true); return err }, nil, 2, 1},
		"a second learner has to wait":                        {voters(2, nil, 2), func(s *State) error { _, err := s.add([]string{peer(9)}, true); return err }, rpctypes.ErrGRPCTooManyLearners, 2, 1},
		"no member joins while a voter is down":               {voters(3, []uint64{3}), func(s *State) error { _, err := s.add([]string{peer(9)}, true); return err }, rpctypes.ErrGRPCUnhealthy, 3, 1},
		"no member joins without a quorum":                    {voters(3, []uint64{2, 3}), func(s *State) error { _, err := s.add([]string{peer(9)}, true); return err }, rpctypes.ErrGRPCUnhealthy, 3, 0},
		"a member joins five of which one is down":            {voters(5, []uint64{5}), func(s *State) error { _, err := s.add([]string{peer(9)}, true); return err }, nil, 6, 1},
		"no member joins five of which two are down":          {voters(5, []uint64{4, 5}), func(s *State) error { _, err := s.add([]string{peer(9)}, true); return err }, rpctypes.ErrGRPCUnhealthy, 5, 1},
		"a live member stays without a quorum":                {voters(3, []uint64{2, 3}), func(s *State) error { return s.remove(1) }, rpctypes.ErrGRPCUnhealthy, 3, 0},
		"an unknown member is not looked up without a quorum": {voters(3, []uint64{2, 3}), func(s *State) error { return s.remove(9) }, rpctypes.ErrGRPCTimeout, 3, 0},
		"an address joins once":                               {voters(1, nil), func(s *State) error { _, err := s.add([]string{peer(1)}, true); return err }, rpctypes.ErrGRPCPeerURLExist, 1, 1},
		"an address is a URL with a port":                     {voters(1, nil), func(s *State) error { _, err := s.add([]string{"10.0.0.9"}, true); return err }, rpctypes.ErrGRPCMemberBadURLs, 1, 1},
		"a dead member is removed":                            {voters(3, []uint64{3}), func(s *State) error { return s.remove(3) }, nil, 2, 1},
		"a live member stays while another is dead":           {voters(3, []uint64{3}), func(s *State) error { return s.remove(2) }, rpctypes.ErrGRPCUnhealthy, 3, 1},
		"a live member of three is removed":                   {voters(3, nil), func(s *State) error { return s.remove(2) }, nil, 2, 1},
		"removing the leader elects another":                  {voters(3, nil), func(s *State) error { return s.remove(1) }, nil, 2, 2},
		"the last member stays":                               {voters(1, nil), func(s *State) error { return s.remove(1) }, rpctypes.ErrGRPCMemberNotEnoughStarted, 1, 1},
		"nothing is removed without a quorum":                 {voters(3, []uint64{2, 3}), func(s *State) error { return s.remove(3) }, rpctypes.ErrGRPCTimeout, 3, 0},
		"one of two crashed members cannot be removed":        {voters(2, []uint64{2}), func(s *State) error { return s.remove(2) }, rpctypes.ErrGRPCTimeout, 2, 0},
		"an unknown member is not removed":                    {voters(3, nil), func(s *State) error { return s.remove(9) }, rpctypes.ErrGRPCMemberNotFound, 3, 1},
		"a learner leaves even while a voter is down":         {voters(4, []uint64{3}, 4), func(s *State) error { return s.remove(4) }, nil, 3, 1},
		"a learner that runs is promoted":                     {voters(2, nil, 2), func(s *State) error { return s.promote(2) }, nil, 2, 1},
		"a learner that does not run is not promoted":         {voters(2, []uint64{2}, 2), func(s *State) error { return s.promote(2) }, rpctypes.ErrGRPCLearnerNotReady, 2, 1},
		"a voter is not promoted":                             {voters(2, nil), func(s *State) error { return s.promote(2) }, rpctypes.ErrGRPCMemberNotLearner, 2, 1},
		"an unknown member is not promoted":                   {voters(2, nil), func(s *State) error { return s.promote(9) }, rpctypes.ErrGRPCMemberNotFound, 2, 1},
		"the leader hands over":                               {voters(3, nil), func(s *State) error { return s.moveLeader(1, 3) }, nil, 3, 3},
		"a follower cannot hand over":                         {voters(3, nil), func(s *State) error { return s.moveLeader(2, 3) }, rpctypes.ErrGRPCNotLeader, 3, 1},
		"a learner cannot lead":                               {voters(2, nil, 2), func(s *State) error { return s.moveLeader(1, 2) }, rpctypes.ErrGRPCBadLeaderTransferee, 2, 1},
		"a dead member cannot lead":                           {voters(3, []uint64{3}), func(s *State) error { return s.moveLeader(1, 3) }, rpctypes.ErrGRPCTimeout, 3, 1},
		"a peer address changes":                              {voters(2, nil), func(s *State) error { return s.update(2, []string{peer(8)}) }, nil, 2, 1},
		"a peer address cannot change to that of another":     {voters(2, nil), func(s *State) error { return s.update(2, []string{peer(1)}) }, rpctypes.ErrGRPCPeerURLExist, 2, 1},
		"an alarm is not raised without a quorum":             {voters(2, []uint64{2}), raise, rpctypes.ErrGRPCTimeout, 2, 0},
		"an alarm is raised":                                  {voters(1, nil), raise, nil, 1, 1},
		"losing a voter that leads elects another":            {voters(3, []uint64{1}), func(*State) error { return nil }, nil, 3, 2},
		"a voter joins a single member that has started":      {voters(1, nil), func(s *State) error { _, err := s.add([]string{peer(9)}, false); return err }, nil, 2, 0},
		"a voter cannot join if too few have started":         {unstarted(voters(2, nil)), func(s *State) error { _, err := s.add([]string{peer(9)}, false); return err }, rpctypes.ErrGRPCMemberNotEnoughStarted, 2, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tc.state
			if err := tc.do(&s); !errors.Is(err, tc.want) {
				t.Errorf("got error %v, want %v", err, tc.want)
			}
			if len(s.Members) != tc.members || s.Leader != tc.leader {
				t.Errorf("got %d members led by %d, want %d led by %d", len(s.Members), s.Leader, tc.members, tc.leader)
			}
		})
	}
}

func raise(s *State) error {
	_, err := s.alarm(pb.AlarmRequest_ACTIVATE, 1, pb.AlarmType_NOSPACE)
	return err
}

// unstarted changes the second member to one that was added and has never run.
func unstarted(s State) State {
	s.Members[1].Name = ""
	return s
}

func TestAlarmsAreRaisedListedAndCleared(t *testing.T) {
	t.Parallel()
	s := voters(2, nil)
	for range 2 {
		if err := raise(&s); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.alarm(pb.AlarmRequest_GET, 0, pb.AlarmType_NONE)
	if err != nil || len(got) != 1 || got[0].MemberID != 1 || got[0].Alarm != pb.AlarmType_NOSPACE {
		t.Errorf("got alarms %v, %v, want NOSPACE of member 1", got, err)
	}
	if _, err := s.alarm(pb.AlarmRequest_DEACTIVATE, 1, pb.AlarmType_NOSPACE); err != nil {
		t.Fatal(err)
	}
	if got, err := s.alarm(pb.AlarmRequest_GET, 0, pb.AlarmType_NONE); err != nil || len(got) != 0 {
		t.Errorf("got alarms %v, %v after clearing, want none", got, err)
	}
}

func TestStateIsACopy(t *testing.T) {
	t.Parallel()
	s := voters(2, nil)
	c := s.clone()
	s.Members[0].PeerURLs[0] = "changed"
	s.Members[1].Down = true
	if diff := cmp.Diff(voters(2, nil), c); diff != "" {
		t.Errorf("the clone changed (-want +got):\n%s", diff)
	}
}
