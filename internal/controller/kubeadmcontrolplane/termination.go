// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/etcd"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/kit/phase"
	"github.com/capstan-dev/capstan/internal/pure/controlplane"
	"github.com/capstan-dev/capstan/internal/pure/quorum"
)

// removeOrphans removes an etcd member whose machine is gone: it would count
// for the majority for ever. While a machine is coming up nobody can tell whose
// a member is.
func (r *Reconciler) removeOrphans(ctx context.Context, s *state) (phase.Next, error) {
	if !s.etcd.asked() || s.etcd.listErr != nil {
		return phase.Continue(), nil
	}
	var nodes []string
	for _, m := range s.machines {
		if m.Node() == "" {
			return phase.Continue(), nil
		}
		nodes = append(nodes, m.Node())
	}
	orphans := quorum.Orphans(s.etcd.members, nodes)
	if len(orphans) == 0 {
		return phase.Continue(), nil
	}
	orphan := orphans[0]
	if why := quorum.MayRemove(s.etcd.members, orphan.ID); why != "" {
		ctrl.LoggerFrom(ctx).V(2).Info("Keeping an etcd member that has no machine", "member", orphan.Name, "reason", why)
		return phase.Continue(), nil
	}
	c, err := r.connectEtcd(ctx, s, nodesBut(s, nil)...)
	if err != nil {
		return phase.Continue(), err
	}
	ctrl.LoggerFrom(ctx).Info("Removing etcd member", "member", orphan.Name, "reason", "it has no machine")
	if err := errors.Join(c.Remove(ctx, orphan.ID), c.Close()); err != nil {
		return phase.Continue(), err
	}
	r.memory.forget(s.key())
	s.due(s.now)
	return phase.Wait(0), nil
}

// prepareTermination lets a machine that has been drained go: its etcd member
// hands over the leadership and is removed, then the hook that holds the
// machine's infrastructure.
func (r *Reconciler) prepareTermination(ctx context.Context, s *state) (phase.Next, error) {
	for _, m := range s.machines {
		if _, held := m.Annotations[controlplanev1.PreTerminateHookCleanupAnnotation]; !held || !m.Deleting() {
			continue
		}
		if len(s.machines) > 1 && s.cluster.DeletionTimestamp.IsZero() {
			if why := notYet(m); why != "" {
				ctrl.LoggerFrom(ctx).V(2).Info("Waiting before a machine may terminate", "Machine", m.Name, "reason", why)
				return phase.Continue(), nil // the Machine wakes us; one at a time
			}
			if err := r.removeMember(ctx, s, m); err != nil {
				return phase.Continue(), fmt.Errorf("Machine %s: %w", m.Name, err)
			}
		}
		delete(m.Annotations, controlplanev1.PreTerminateHookCleanupAnnotation)
		ctrl.LoggerFrom(ctx).Info("Letting machine terminate", "Machine", m.Name)
		return phase.Continue(), nil
	}
	return phase.Continue(), nil
}

// notYet says why a machine's time has not come.
func notYet(m *controlplane.Machine) string {
	if conditions.Reason(m, clusterv1.MachineDeletingCondition) != clusterv1.MachineDeletingWaitingForPreTerminateHookReason {
		return "its deletion has not come to the hooks yet"
	}
	for key := range m.Annotations {
		if strings.HasPrefix(key, clusterv1.PreTerminateDeleteHookAnnotationPrefix) && key != controlplanev1.PreTerminateHookCleanupAnnotation {
			return "hook " + key + " goes first: without its etcd member the Node may stop working"
		}
	}
	return ""
}

// removeMember removes the etcd member of a machine, if it has one and a healthy
// majority is left.
func (r *Reconciler) removeMember(ctx context.Context, s *state, m *controlplane.Machine) error {
	if !controlplane.ManagesEtcd(s.kcp) || m.Node() == "" {
		return nil
	}
	if !s.etcd.asked() || s.etcd.listErr != nil {
		s.due(s.now.Add(inspectAgain))
		return fmt.Errorf("its etcd member cannot be removed while members cannot be listed: %w", cmp.Or(s.etcd.listErr, workload.ErrNotConnected))
	}
	member := s.etcd.member(m.Node())
	if member == nil {
		return nil
	}
	c, err := r.connectEtcd(ctx, s, nodesBut(s, m)...)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	// What is known may be minutes old: this cannot be undone, so look again.
	members, err := r.currentMembers(ctx, s, c)
	if err != nil {
		return err
	}
	if why := quorum.MayRemove(members, member.ID); why != "" {
		s.due(s.now.Add(inspectAgain))
		return fmt.Errorf("its etcd member is not removed: %s", why)
	}
	if err := r.handOver(ctx, s, c, m, members); err != nil {
		return err
	}
	if err := c.Remove(ctx, member.ID); err != nil {
		return err
	}
	r.memory.forget(s.key())
	ctrl.LoggerFrom(ctx).Info("Removed etcd member", "Machine", m.Name, "member", member.Name)
	return nil
}

// currentMembers lists the members now, healthy as they were last.
func (r *Reconciler) currentMembers(ctx context.Context, s *state, c etcd.Client) ([]quorum.Member, error) {
	list, err := c.Members(ctx)
	if err != nil {
		return nil, err
	}
	members := evaluate([]answer{{members: list}}).members
	for i := range members {
		if known := s.etcd.member(members[i].Name); known != nil && known.ID == members[i].ID {
			members[i].Healthy = known.Healthy
		}
	}
	return members, nil
}

// handOver moves the leadership of etcd away from a machine's member.
func (r *Reconciler) handOver(ctx context.Context, s *state, c etcd.Client, leaving *controlplane.Machine, members []quorum.Member) error {
	status, err := c.Status(ctx)
	if err != nil {
		return err
	}
	if member := s.etcd.member(leaving.Node()); member == nil || status.Leader != member.ID {
		return nil
	}
	var errs []error
	for _, heir := range quorum.Heirs(members, heirs(s, leaving)) {
		if err := c.MoveLeader(ctx, heir.ID); err != nil {
			errs = append(errs, err)
			continue
		}
		ctrl.LoggerFrom(ctx).Info("Moved the leadership of etcd", "from", leaving.Node(), "to", heir.Name)
		return nil
	}
	return fmt.Errorf("no other member could take the leadership of etcd: %w", errors.Join(errs...))
}

func heirs(s *state, leaving *controlplane.Machine) (all []quorum.Heir) {
	for _, m := range s.machines {
		if m == leaving || m.Node() == "" || m.Deleting() {
			continue
		}
		all = append(all, quorum.Heir{
			Node:           m.Node(),
			MemberHealthy:  conditions.IsTrue(m, controlplanev1.KubeadmControlPlaneMachineEtcdMemberHealthyCondition),
			MachineHealthy: !conditions.IsFalse(m, clusterv1.MachineHealthCheckSucceededCondition),
			Current:        m.UpToDate,
			Created:        m.CreationTimestamp.Time,
		})
	}
	return all
}
