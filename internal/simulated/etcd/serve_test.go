// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/api/v3/version"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capstan-dev/capstan/internal/kit/certs"
)

// TestPanicEndsOneCallAlone: gRPC does not recover.
func TestPanicEndsOneCallAlone(t *testing.T) {
	t.Parallel()
	c := newCluster(t, voters(1, nil), func() { panic("planted") })
	members := connect(t, c, "a", newCA(t))
	if _, err := members.MemberAdd(t.Context(), &pb.MemberAddRequest{PeerURLs: []string{peer(2)}, IsLearner: true}); err == nil || !strings.Contains(err.Error(), "planted") {
		t.Errorf("got error %v, want the panic", err)
	}
	if got, err := members.MemberList(t.Context(), &pb.MemberListRequest{}); err != nil || len(got.Members) != 2 {
		t.Errorf("got members %v, %v afterwards, want two", got, err)
	}
}

// TestPanicReleasesTheState: calls that follow do not wait for one that panics.
func TestPanicReleasesTheState(t *testing.T) {
	t.Parallel()
	c := newCluster(t, voters(1, nil), nil)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		_, err := c.change(1, func(*State) error { panic("planted") })
		t.Error(err)
	}()
	if !c.mu.TryLock() {
		t.Fatal("the state stays locked")
	}
	c.mu.Unlock()
}

func TestMembersAreChangedByClients(t *testing.T) {
	t.Parallel()
	changes := 0
	c := newCluster(t, State{}, func() { changes++ })
	if err := c.Bootstrap("a", peer(1), "https://10.0.0.1:2379"); err != nil {
		t.Fatal(err)
	}
	a, _ := c.Member("a")
	m := connect(t, c, "a", newCA(t))
	added, err := m.MemberAdd(t.Context(), &pb.MemberAddRequest{PeerURLs: []string{peer(2)}, IsLearner: true})
	if err != nil || added.Member.ID == 0 || added.Member.ID == a.ID || !added.Member.IsLearner || len(added.Members) != 2 || added.Header.MemberId != a.ID {
		t.Fatalf("got %v, error %v, want a learner", added, err)
	}
	id := added.Member.ID
	_, err = m.MemberPromote(t.Context(), &pb.MemberPromoteRequest{ID: id})
	want(t, "promote what has not started", err, rpctypes.ErrGRPCLearnerNotReady)
	if err := c.Start(id, "b", "https://10.0.0.2:2379"); err != nil {
		t.Fatal(err)
	}
	if promoted, err := m.MemberPromote(t.Context(), &pb.MemberPromoteRequest{ID: id}); err != nil || slices.ContainsFunc(promoted.Members, func(m *pb.Member) bool { return m.IsLearner }) {
		t.Errorf("promote: got %v, error %v", promoted, err)
	}
	if updated, err := m.MemberUpdate(t.Context(), &pb.MemberUpdateRequest{ID: id, PeerURLs: []string{peer(3)}}); err != nil || updated.Header.Revision <= added.Header.Revision {
		t.Errorf("update: got %v, error %v, want a later revision", updated, err)
	}
	listed, err := m.MemberList(t.Context(), &pb.MemberListRequest{Linearizable: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range listed.Members {
		got = append(got, m.Name+" "+strings.Join(m.PeerURLs, ",")+" "+strings.Join(m.ClientURLs, ","))
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"a " + peer(1) + " https://10.0.0.1:2379", "b " + peer(3) + " https://10.0.0.2:2379"}, got); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
	if changes != 3 {
		t.Errorf("%d changes were reported, want those of three calls", changes)
	}
	if removed, err := m.MemberRemove(t.Context(), &pb.MemberRemoveRequest{ID: id}); err != nil || len(removed.Members) != 1 {
		t.Errorf("remove: got %v, error %v", removed, err)
	}
	_, err = m.MemberRemove(t.Context(), &pb.MemberRemoveRequest{ID: a.ID})
	want(t, "remove the last", err, rpctypes.ErrGRPCMemberNotEnoughStarted)
	if got := status.Code(err); got != codes.FailedPrecondition {
		t.Errorf("remove the last: got code %s, want that of etcd", got)
	}
}

func TestStatusReportsWhatIsWrong(t *testing.T) {
	t.Parallel()
	learner := voters(3, nil, 3)
	lags := voters(3, nil)
	lags.Members[0].Lags = true
	full := voters(1, nil)
	full.Members[0].Alarms = []string{noSpace}
	tests := map[string]struct {
		state   State
		name    string
		leader  uint64
		learner bool
		behind  bool
		errors  []string
	}{
		"a leader":          {voters(3, nil), "a", 1, false, false, nil},
		"a follower":        {voters(3, nil), "b", 1, false, false, nil},
		"a learner":         {learner, "c", 1, true, false, nil},
		"one that lags":     {lags, "a", 1, false, true, nil},
		"without a quorum":  {voters(3, []uint64{2, 3}), "a", 0, false, false, []string{"etcdserver: no leader"}},
		"one without space": {full, "a", 1, false, false, []string{"memberID:1 alarm:NOSPACE "}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := connect(t, newCluster(t, tc.state, nil), tc.name, newCA(t)).Status(t.Context(), &pb.StatusRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if s.Leader != tc.leader || s.IsLearner != tc.learner || s.RaftAppliedIndex < s.RaftIndex != tc.behind || s.Version != version.Version || s.DbSize <= 0 || s.Header.ClusterId != 99 {
				t.Errorf("got %v", s)
			}
			if diff := cmp.Diff(tc.errors, s.Errors); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRequestsNeedWhatEtcdNeeds(t *testing.T) {
	t.Parallel()
	calls := map[string]func(client) error{
		"list": func(m client) error { _, err := m.MemberList(t.Context(), &pb.MemberListRequest{}); return err },
		"list of the latest": func(m client) error {
			_, err := m.MemberList(t.Context(), &pb.MemberListRequest{Linearizable: true})
			return err
		},
		"read": func(m client) error {
			_, err := m.Range(t.Context(), &pb.RangeRequest{Key: []byte("k"), Serializable: true})
			return err
		},
		"read of the latest": func(m client) error { _, err := m.Range(t.Context(), &pb.RangeRequest{Key: []byte("k")}); return err },
		"read of no key":     func(m client) error { _, err := m.Range(t.Context(), &pb.RangeRequest{}); return err },
		"add": func(m client) error {
			_, err := m.MemberAdd(t.Context(), &pb.MemberAddRequest{PeerURLs: []string{peer(9)}, IsLearner: true})
			return err
		},
		"alarms": func(m client) error { _, err := m.Alarm(t.Context(), &pb.AlarmRequest{}); return err },
		"hand over": func(m client) error {
			_, err := m.MoveLeader(t.Context(), &pb.MoveLeaderRequest{TargetID: 2})
			return err
		},
		"status": func(m client) error { _, err := m.Status(t.Context(), &pb.StatusRequest{}); return err },
	}
	const none = "none"
	lags := voters(3, nil)
	lags.Members[0].Lags = true
	learn, late, empty, unhealthy, leads := rpctypes.ErrGRPCNotSupportedForLearner, rpctypes.ErrGRPCTimeout, rpctypes.ErrGRPCEmptyKey, rpctypes.ErrGRPCUnhealthy, rpctypes.ErrGRPCNotLeader
	tests := map[string]struct {
		state State
		of    string
		want  map[string]error
	}{
		"the leader":       {voters(3, nil), "a", map[string]error{"read of no key": empty}},
		"without a quorum": {voters(3, []uint64{2, 3}), "a", map[string]error{"list of the latest": late, "read of the latest": late, "read of no key": empty, "add": unhealthy, "alarms": late, "hand over": leads}},
		"a learner": {voters(3, nil, 3), "c", map[string]error{
			"list": learn, "list of the latest": learn, "read of the latest": learn, "read of no key": empty, "add": learn, "alarms": learn, "hand over": learn,
		}},
		"one that lags": {lags, "a", map[string]error{"list of the latest": late, "read of the latest": late, "read of no key": empty, "add": late, "alarms": late, "hand over": late}},
	}
	for name, tc := range tests {
		for call, do := range calls {
			t.Run(name+", "+call, func(t *testing.T) {
				t.Parallel()
				want(t, none, do(connect(t, newCluster(t, tc.state, nil), tc.of, newCA(t))), tc.want[call])
			})
		}
	}
}

func TestAlarmsAreServed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, voters(2, nil), nil)
	m := connect(t, c, "b", newCA(t))
	c.SetFull("a", true)
	list := func() string {
		t.Helper()
		got, err := m.Alarm(t.Context(), &pb.AlarmRequest{Action: pb.AlarmRequest_GET})
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, a := range got.Alarms {
			out = append(out, a.String())
		}
		return strings.Join(out, ", ")
	}
	if got := list(); got != "memberID:1 alarm:NOSPACE " || !c.Full() {
		t.Errorf("got alarms %q, full %t", got, c.Full())
	}
	if _, err := m.Alarm(t.Context(), &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: 2, Alarm: pb.AlarmType_CORRUPT}); err != nil {
		t.Fatal(err)
	}
	if got := list(); got != "memberID:1 alarm:NOSPACE , memberID:2 alarm:CORRUPT " {
		t.Errorf("got alarms %q", got)
	}
	for range 2 { // the second finds nothing to clear
		if _, err := m.Alarm(t.Context(), &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, MemberID: 1, Alarm: pb.AlarmType_NOSPACE}); err != nil {
			t.Fatal(err)
		}
	}
	if got := list(); got != "memberID:2 alarm:CORRUPT " || c.Full() {
		t.Errorf("got alarms %q, full %t", got, c.Full())
	}
}

func TestOnlyClientsOfTheCAAreServed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, voters(1, nil), nil)
	other, err := certs.New(certs.Etcd, certs.ECDSAP256, time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, c, "a", other).Status(t.Context(), &pb.StatusRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v, want that no connection is made", err)
	}
	if _, err := connect(t, c, "a", newCA(t)).Status(t.Context(), &pb.StatusRequest{}); err != nil {
		t.Error(err)
	}
}

func TestMembersThatDoNotRunAreNotServed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, voters(3, []uint64{3}), nil)
	for _, name := range []string{"c", "absent", ""} { // none is that of a member that has not started
		near, far := net.Pipe()
		if err := c.Serve(name, far); !errors.Is(err, ErrNotRunning) {
			t.Errorf("%q: got %v, want that it does not run", name, err)
		}
		if _, err := near.Read(make([]byte, 1)); err == nil {
			t.Errorf("%q: the connection stays open", name)
		}
	}
}

func TestConnectionsEndWithTheirMember(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*Cluster) error{
		"stopped": func(c *Cluster) error {
			if !c.SetRunning("b", false) || c.SetRunning("b", false) {
				return errors.New("it does not report one change")
			}
			return nil
		},
		"closed":  func(c *Cluster) error { c.Close(); return nil },
		"removed": func(c *Cluster) error { _, err := c.change(1, func(s *State) error { return s.remove(2) }); return err },
	}
	for name, end := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, voters(3, nil), nil)
			m := connect(t, c, "b", newCA(t))
			if _, err := m.Status(t.Context(), &pb.StatusRequest{}); err != nil {
				t.Fatal(err)
			}
			if err := end(c); err != nil {
				t.Fatal(err)
			}
			if err := <-m.served; err != nil {
				t.Errorf("got %v, want an ordinary end", err)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			if s := c.certs[2]; s != nil && len(s.conns) > 0 && name != "closed" { // a client connects again
				t.Errorf("connections are left: %v", s.conns)
			}
		})
	}
}
