// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"cmp"
	"crypto/sha1" // The hash etcd itself derives identities with; nothing is protected by it.
	"encoding/binary"
	"fmt"
	"net/url"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// maxLearners is etcd's default for --max-learners.
const maxLearners = 1

// State is everything that an etcd cluster must persist to be the same after a
// restart of the process. It is a value: a caller may keep a copy.
type State struct {
	ClusterID uint64   `json:"clusterID"`
	Term      uint64   `json:"term"`
	Index     uint64   `json:"index"`
	Leader    uint64   `json:"leader,omitempty"` // 0 while there is no quorum
	Members   []Member `json:"members,omitempty"`
}

// Member is one etcd member.
type Member struct {
	ID         uint64   `json:"id"`
	Name       string   `json:"name"` // empty until it has been started, as in etcd
	PeerURLs   []string `json:"peerURLs"`
	ClientURLs []string `json:"clientURLs,omitempty"`
	Learner    bool     `json:"learner,omitempty"`
	Down       bool     `json:"down,omitempty"`   // not running, or its machine is deleted
	Lags       bool     `json:"lags,omitempty"`   // behind the others
	Alarms     []string `json:"alarms,omitempty"` // NOSPACE, CORRUPT
}

var noSpace = pb.AlarmType_NOSPACE.String()

func (m Member) full() bool { return slices.Contains(m.Alarms, noSpace) }

func (s *State) clone() State {
	c := *s
	c.Members = make([]Member, len(s.Members))
	for i, m := range s.Members {
		m.PeerURLs, m.ClientURLs, m.Alarms = slices.Clone(m.PeerURLs), slices.Clone(m.ClientURLs), slices.Clone(m.Alarms)
		c.Members[i] = m
	}
	return c
}

func (s *State) member(id uint64) *Member {
	for i := range s.Members {
		if s.Members[i].ID == id {
			return &s.Members[i]
		}
	}
	return nil
}

func (s *State) named(name string) *Member {
	for i := range s.Members {
		if s.Members[i].Name == name && name != "" {
			return &s.Members[i]
		}
	}
	return nil
}

// voters counts the voting members and those of them that run.
func (s *State) voters() (all, up int) {
	for _, m := range s.Members {
		if m.Learner {
			continue
		}
		all++
		if !m.Down {
			up++
		}
	}
	return all, up
}

func (s *State) hasQuorum() bool {
	all, up := s.voters()
	return all > 0 && up >= all/2+1
}

// elect keeps a leader that can lead and else chooses the first voting member that
// runs; without a quorum there is no leader.
func (s *State) elect() {
	if !s.hasQuorum() {
		s.Leader = 0
		return
	}
	able := func(m Member) bool { return !m.Learner && !m.Down && !m.Lags }
	if !slices.ContainsFunc(s.Members, able) { // all are as late as each other
		able = func(m Member) bool { return !m.Learner && !m.Down }
	}
	if m := s.member(s.Leader); m != nil && able(*m) {
		return
	}
	s.Leader = s.Members[slices.IndexFunc(s.Members, able)].ID // a quorum has one
	s.Term++
	s.Index++
}

// writable returns etcd's error for a request that is committed through raft, or
// nil.
func (s *State) writable() error {
	if !s.hasQuorum() {
		return rpctypes.ErrGRPCTimeout
	}
	return nil
}

// started counts the voting members without id, and those that have ever run.
func (s *State) started(without uint64) (all, started int) {
	for _, m := range s.Members {
		if m.Learner || m.ID == without {
			continue
		}
		all++
		if m.Name != "" {
			started++
		}
	}
	return all, started
}

// add refuses what etcd refuses, in its order, so that a client meets the same
// error first.
func (s *State) add(peerURLs []string, learner bool) (*Member, error) {
	if len(peerURLs) == 0 || slices.ContainsFunc(peerURLs, badURL) {
		return nil, rpctypes.ErrGRPCMemberBadURLs
	}
	if all, started := s.started(0); !learner && !(all == 1 && started == 1) && started < (all+1)/2+1 {
		return nil, rpctypes.ErrGRPCMemberNotEnoughStarted
	}
	// Those that run must be a quorum even while the new member does not run yet.
	if all, up := s.voters(); all > 1 && up < (all+1)/2+1 {
		return nil, rpctypes.ErrGRPCUnhealthy
	}
	learners := 0
	for _, m := range s.Members {
		if m.Learner {
			learners++
		}
		for _, u := range peerURLs {
			if slices.Contains(m.PeerURLs, u) {
				return nil, rpctypes.ErrGRPCPeerURLExist
			}
		}
	}
	if learner && learners >= maxLearners {
		return nil, rpctypes.ErrGRPCTooManyLearners
	}
	s.Index++
	m := Member{
		ID: identity(fmt.Sprintf("%x/%s/%d", s.ClusterID, strings.Join(peerURLs, ","), s.Index)), PeerURLs: slices.Clone(peerURLs),
		Learner: learner, Down: true, // the member has not been started yet
	}
	s.Members = append(s.Members, m)
	// etcd lists members ordered by nothing in particular; by ID is stable.
	slices.SortFunc(s.Members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	s.elect()
	return s.member(m.ID), nil
}

func (s *State) remove(id uint64) error {
	m := s.member(id)
	if m == nil || !m.Learner {
		if all, started := s.started(id); started < all/2+1 {
			return rpctypes.ErrGRPCMemberNotEnoughStarted
		}
		if all, up := s.voters(); m != nil && !m.Down && up-1 < 1+(all-1)/2 {
			return rpctypes.ErrGRPCUnhealthy
		}
	}
	if err := s.writable(); err != nil {
		return err
	}
	if m == nil {
		return rpctypes.ErrGRPCMemberNotFound
	}
	s.Index++
	s.Members = slices.DeleteFunc(s.Members, func(m Member) bool { return m.ID == id })
	s.elect()
	return nil
}

func (s *State) promote(id uint64) error {
	if err := s.writable(); err != nil {
		return err
	}
	m := s.member(id)
	switch {
	case m == nil:
		return rpctypes.ErrGRPCMemberNotFound
	case m.Learner && (m.Down || m.Lags):
		return rpctypes.ErrGRPCLearnerNotReady
	case !m.Learner:
		return rpctypes.ErrGRPCMemberNotLearner
	}
	s.Index++
	m.Learner = false
	s.elect()
	return nil
}

func (s *State) update(id uint64, peerURLs []string) error {
	if len(peerURLs) == 0 || slices.ContainsFunc(peerURLs, badURL) {
		return rpctypes.ErrGRPCMemberBadURLs
	}
	if err := s.writable(); err != nil {
		return err
	}
	m := s.member(id)
	if m == nil {
		return rpctypes.ErrGRPCMemberNotFound
	}
	for _, o := range s.Members {
		if o.ID != id && slices.ContainsFunc(peerURLs, func(u string) bool { return slices.Contains(o.PeerURLs, u) }) {
			return rpctypes.ErrGRPCPeerURLExist
		}
	}
	s.Index++
	m.PeerURLs = slices.Clone(peerURLs)
	return nil
}

// moveLeader is a request to the member at.
func (s *State) moveLeader(at, to uint64) error {
	if at != s.Leader {
		return rpctypes.ErrGRPCNotLeader
	}
	m := s.member(to)
	if m == nil || m.Learner {
		return rpctypes.ErrGRPCBadLeaderTransferee
	}
	if m.Down || m.Lags {
		return rpctypes.ErrGRPCTimeout // etcd waits for the transfer until its time is up
	}
	if s.Leader != to {
		s.Leader = to
		s.Term++
		s.Index++
	}
	return nil
}

func (s *State) alarm(action pb.AlarmRequest_AlarmAction, id uint64, alarm pb.AlarmType) ([]*pb.AlarmMember, error) {
	if err := s.writable(); err != nil {
		return nil, err
	}
	var out []*pb.AlarmMember
	switch action {
	case pb.AlarmRequest_GET:
		for _, m := range s.Members {
			for _, a := range m.Alarms {
				if alarm == pb.AlarmType_NONE || alarm.String() == a {
					out = append(out, &pb.AlarmMember{MemberID: m.ID, Alarm: pb.AlarmType(pb.AlarmType_value[a])})
				}
			}
		}
		return out, nil
	case pb.AlarmRequest_ACTIVATE:
		m := s.member(id)
		if m == nil || alarm == pb.AlarmType_NONE {
			return nil, nil
		}
		if !slices.Contains(m.Alarms, alarm.String()) {
			m.Alarms = append(m.Alarms, alarm.String())
			s.Index++
		}
		return []*pb.AlarmMember{{MemberID: id, Alarm: alarm}}, nil
	case pb.AlarmRequest_DEACTIVATE:
		m := s.member(id)
		if m == nil || !slices.Contains(m.Alarms, alarm.String()) {
			return nil, nil
		}
		m.Alarms = slices.DeleteFunc(m.Alarms, func(a string) bool { return a == alarm.String() })
		s.Index++
		return []*pb.AlarmMember{{MemberID: id, Alarm: alarm}}, nil
	}
	return nil, nil
}

func badURL(s string) bool {
	u, err := url.Parse(s)
	return err != nil || u.Host == "" || u.Port() == "" || u.Path != "" || (u.Scheme != "http" && u.Scheme != "https")
}

func identity(of string) uint64 {
	sum := sha1.Sum([]byte(of))
	return binary.BigEndian.Uint64(sum[:8])
}
