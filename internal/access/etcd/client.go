// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// Client manages the membership of one etcd cluster through one of its members. It
// is not meant to be kept: connect, make the calls, close. Every method is bounded
// by the dialer's call timeout.
type Client interface {
	// Members lists all members with their alarms; it needs a quorum.
	Members(ctx context.Context) ([]Member, error)
	// Status returns the view that the connected member has of itself and the leader;
	// it needs no quorum.
	Status(ctx context.Context) (Status, error)
	// Remove removes a member. etcd refuses if the quorum would not survive.
	Remove(ctx context.Context, id uint64) error
	// MoveLeader transfers the leadership to another voting member; it finds the
	// leader itself. It does nothing if that member is the leader already.
	MoveLeader(ctx context.Context, to uint64) error
	// Close ends the connection.
	Close() error
}

// Alarm is an alarm of a member: NOSPACE or CORRUPT.
type Alarm string

// Member is a member of the cluster.
type Member struct {
	ID      uint64
	Name    string // that of the node; empty until the member has run
	Learner bool
	Alarms  []Alarm
}

// Status is a member's view of itself and of the cluster.
type Status struct {
	Member uint64   // the member that answers
	Leader uint64   // 0 if there is none
	Errors []string // alarms, and the lack of a leader
}

// client is a Client on one gRPC connection. It uses etcd's services without etcd's
// client library, whose resolver, balancer and retries would each open
// port-forwards that are thrown away: every call here is to one known member.
type client struct {
	dialer *Dialer
	target Target
	node   string
	conn   *grpc.ClientConn
	call   time.Duration
	proof  atomic.Pointer[Status] // the member's response at connection, until the first call of Status
}

func (c *client) cluster() pb.ClusterClient         { return pb.NewClusterClient(c.conn) }
func (c *client) maintenance() pb.MaintenanceClient { return pb.NewMaintenanceClient(c.conn) }

func (c *client) Members(ctx context.Context) ([]Member, error) {
	ctx, cancel := context.WithTimeout(ctx, c.call)
	defer cancel()
	list, err := c.cluster().MemberList(ctx, &pb.MemberListRequest{Linearizable: true})
	if err != nil {
		return nil, c.failed("list members", err)
	}
	alarms, err := c.maintenance().Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_GET})
	if err != nil {
		return nil, c.failed("list alarms", err)
	}
	members := make([]Member, 0, len(list.Members))
	for _, m := range list.Members {
		member := Member{ID: m.ID, Name: sanitize.Line(m.Name, maxText), Learner: m.IsLearner}
		for _, a := range alarms.Alarms {
			if a.MemberID == m.ID {
				member.Alarms = append(member.Alarms, Alarm(a.Alarm.String()))
			}
		}
		members = append(members, member)
	}
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return members, nil
}

// Status returns the recent response from the connection the first time: a request
// goes through a port-forward, which costs both sides as much as the response.
func (c *client) Status(ctx context.Context) (Status, error) {
	if first := c.proof.Swap(nil); first != nil {
		return *first, nil
	}
	return c.ask(ctx)
}

func (c *client) ask(ctx context.Context) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, c.call)
	defer cancel()
	s, err := c.maintenance().Status(ctx, &pb.StatusRequest{})
	if err != nil {
		return Status{}, c.failed("read its status", err)
	}
	for i := range s.Errors {
		s.Errors[i] = sanitize.Line(s.Errors[i], maxText)
	}
	return Status{Member: s.Header.GetMemberId(), Leader: s.Leader, Errors: s.Errors}, nil
}

func (c *client) Remove(ctx context.Context, id uint64) error {
	ctx, cancel := context.WithTimeout(ctx, c.call)
	defer cancel()
	if _, err := c.cluster().MemberRemove(ctx, &pb.MemberRemoveRequest{ID: id}); err != nil {
		return c.failed(fmt.Sprintf("remove member %x", id), err)
	}
	return nil
}

func (c *client) MoveLeader(ctx context.Context, to uint64) error {
	status, err := c.ask(ctx)
	switch {
	case err != nil:
		return err
	case status.Leader == to:
		return nil
	case status.Leader == 0:
		return c.failed(fmt.Sprintf("move leadership to member %x", to), errors.New("no member leads now"))
	case status.Leader == status.Member:
		return c.moveLeader(ctx, to)
	}
	members, err := c.Members(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(members, func(m Member) bool { return m.ID == status.Leader })
	if i < 0 {
		return c.failed(fmt.Sprintf("move leadership to member %x", to), fmt.Errorf("the leader %x is not in the member list", status.Leader))
	}
	leader, err := c.dialer.connect(ctx, c.target, members[i].Name)
	if err != nil {
		return err
	}
	err = leader.moveLeader(ctx, to)
	return errors.Join(err, leader.Close())
}

// moveLeader calls the connected member, which must be the leader.
func (c *client) moveLeader(ctx context.Context, to uint64) error {
	ctx, cancel := context.WithTimeout(ctx, c.call)
	defer cancel()
	if _, err := c.maintenance().MoveLeader(ctx, &pb.MoveLeaderRequest{TargetID: to}); err != nil {
		return c.failed(fmt.Sprintf("move leadership to member %x", to), err)
	}
	return nil
}

func (c *client) Close() error {
	if err := c.conn.Close(); err != nil {
		return c.failed("close the connection", err)
	}
	return nil
}

// failed converts etcd's refusals to the errors of rpctypes, so that callers can
// compare them.
func (c *client) failed(doing string, err error) error {
	return c.target.failed(c.node, doing, rpctypes.Error(err))
}
