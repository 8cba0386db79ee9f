// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/api/v3/version"
)

const (
	// An etcd with one small cluster's objects in it; KubeadmControlPlane
	// shows the size and decides nothing by it.
	databaseSize  = 4 << 20
	databaseInUse = 2 << 20
	databaseQuota = 2 << 30 // etcd's default
)

// member serves the Cluster service as one member. gRPC drops what is returned with an
// error.
type member struct {
	pb.UnimplementedClusterServer
	cluster *Cluster
	id      uint64
}

// do answers a request that a learner refuses, and that needs the latest state.
func (m *member) do(f func(*State) error) (State, error) {
	return m.cluster.change(m.id, func(s *State) error {
		if err := s.current(m.id); err != nil {
			return err
		}
		return f(s)
	})
}

// current returns why a member cannot report the latest state.
func (s *State) current(id uint64) error {
	switch m := s.member(id); {
	case m.Learner:
		return rpctypes.ErrGRPCNotSupportedForLearner
	case m.Lags:
		return rpctypes.ErrGRPCTimeout
	}
	return nil
}

func (m *member) header(s State) *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: s.ClusterID, MemberId: m.id, Revision: int64(s.Index), RaftTerm: s.Term}
}

func list(s State) []*pb.Member {
	out := make([]*pb.Member, 0, len(s.Members))
	for _, m := range s.Members {
		out = append(out, &pb.Member{ID: m.ID, Name: m.Name, PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs, IsLearner: m.Learner})
	}
	return out
}

// MemberList lists the members; a linearizable list, which clients ask for
// unless told otherwise, needs a quorum.
func (m *member) MemberList(_ context.Context, r *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	s, err := m.cluster.change(m.id, func(s *State) error {
		if !r.Linearizable && !s.member(m.id).Learner {
			return nil
		}
		if err := s.current(m.id); err != nil {
			return err
		}
		return s.writable()
	})
	return &pb.MemberListResponse{Header: m.header(s), Members: list(s)}, err
}

// MemberAdd registers a member that has yet to be started.
func (m *member) MemberAdd(_ context.Context, r *pb.MemberAddRequest) (*pb.MemberAddResponse, error) {
	var added Member
	s, err := m.do(func(s *State) error {
		a, err := s.add(r.PeerURLs, r.IsLearner)
		if err == nil {
			added = *a
		}
		return err
	})
	return &pb.MemberAddResponse{
		Header: m.header(s), Members: list(s),
		Member: &pb.Member{ID: added.ID, PeerURLs: added.PeerURLs, IsLearner: added.Learner},
	}, err
}

// MemberRemove removes a member, unless that would lose the quorum.
func (m *member) MemberRemove(_ context.Context, r *pb.MemberRemoveRequest) (*pb.MemberRemoveResponse, error) {
	s, err := m.do(func(s *State) error { return s.remove(r.ID) })
	return &pb.MemberRemoveResponse{Header: m.header(s), Members: list(s)}, err
}

// MemberUpdate changes a member's peer URLs.
func (m *member) MemberUpdate(_ context.Context, r *pb.MemberUpdateRequest) (*pb.MemberUpdateResponse, error) {
	s, err := m.do(func(s *State) error { return s.update(r.ID, r.PeerURLs) })
	return &pb.MemberUpdateResponse{Header: m.header(s), Members: list(s)}, err
}

// MemberPromote makes a learner a voting member.
func (m *member) MemberPromote(_ context.Context, r *pb.MemberPromoteRequest) (*pb.MemberPromoteResponse, error) {
	s, err := m.do(func(s *State) error { return s.promote(r.ID) })
	return &pb.MemberPromoteResponse{Header: m.header(s), Members: list(s)}, err
}

// maintenance serves the Maintenance service as one member.
type maintenance struct {
	pb.UnimplementedMaintenanceServer
	*member
}

// Status answers without a quorum too, and lists what is wrong.
func (m *maintenance) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	s, err := m.cluster.change(m.id, func(*State) error { return nil })
	if err != nil {
		return nil, err
	}
	resp := &pb.StatusResponse{
		Header: m.header(s), Version: version.Version, StorageVersion: "3.6.0",
		Leader: s.Leader, RaftTerm: s.Term, RaftIndex: s.Index, RaftAppliedIndex: s.Index,
		DbSize: databaseSize, DbSizeInUse: databaseInUse, DbSizeQuota: databaseQuota,
		IsLearner: s.member(m.id).Learner, DowngradeInfo: &pb.DowngradeInfo{},
	}
	if s.member(m.id).Lags {
		resp.RaftAppliedIndex /= 2
	}
	if s.Leader == 0 {
		resp.Errors = append(resp.Errors, "etcdserver: no leader")
	}
	for _, o := range s.Members {
		for _, a := range o.Alarms {
			alarm := pb.AlarmMember{MemberID: o.ID, Alarm: pb.AlarmType(pb.AlarmType_value[a])}
			resp.Errors = append(resp.Errors, alarm.String())
		}
	}
	return resp, nil
}

// Alarm lists, raises and clears alarms.
func (m *maintenance) Alarm(_ context.Context, r *pb.AlarmRequest) (*pb.AlarmResponse, error) {
	var alarms []*pb.AlarmMember
	s, err := m.do(func(s *State) (err error) {
		alarms, err = s.alarm(r.Action, r.MemberID, r.Alarm)
		return err
	})
	return &pb.AlarmResponse{Header: m.header(s), Alarms: alarms}, err
}

// MoveLeader hands leadership over; only the leader can.
func (m *maintenance) MoveLeader(_ context.Context, r *pb.MoveLeaderRequest) (*pb.MoveLeaderResponse, error) {
	s, err := m.do(func(s *State) error { return s.moveLeader(m.id, r.TargetID) })
	return &pb.MoveLeaderResponse{Header: m.header(s)}, err
}

// keyValues serves reads of an empty store: enough for a health check.
type keyValues struct {
	pb.UnimplementedKVServer
	*member
}

// Range finds nothing; a linearizable one needs a quorum.
func (k *keyValues) Range(_ context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if len(r.Key) == 0 {
		return nil, rpctypes.ErrGRPCEmptyKey
	}
	s, err := k.cluster.change(k.id, func(s *State) error {
		if r.Serializable {
			return nil
		}
		if err := s.current(k.id); err != nil {
			return err
		}
		return s.writable()
	})
	return &pb.RangeResponse{Header: k.header(s)}, err
}
