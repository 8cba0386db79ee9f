// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/etcd"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/kit/phase"
	"github.com/capstan-dev/capstan/internal/pure/kubeadmcontrolplane"
	"github.com/capstan-dev/capstan/internal/pure/quorum"
)

// removeOrphans removes an etcd member whose machine is gone: it would count
// for the majority for ever.
func (r *Reconciler) removeOrphans(ctx context.Context, s *state) (phase.Next, error) {
	nodes := nodesBut(s, nil)
	for _, orphan := range s.orphanMembers() {
		why := quorum.MayRemove(s.etcd.members, orphan.ID)
		if why == "" && len(nodes) == 0 {
			why = nobodyToAsk
		}
		if why != "" {
			ctrl.LoggerFrom(ctx).V(2).Info("Keeping an etcd member that has no machine", "member", orphan.String(), "reason", why)
			continue
		}
		c, err := r.connectEtcd(ctx, s, nodes...)
		if err != nil {
			return phase.Continue(), err
		}
		ctrl.LoggerFrom(ctx).Info("Removing etcd member", "member", orphan.String(), "reason", "it has no machine")
		if err := errors.Join(c.Remove(ctx, orphan.ID), c.Close()); err != nil {
			return phase.Continue(), err
		}
		r.inspected.Forget(client.ObjectKeyFromObject(s.ControlPlane))
		s.due(s.Now)
		return phase.Wait(0), nil
	}
	return phase.Continue(), nil
}

// orphanMembers are the etcd members that belong to no machine.
func (s *state) orphanMembers() []quorum.Member {
	if !s.etcd.asked() || s.etcd.listErr != nil {
		return nil
	}
	var nodes []string
	for _, m := range s.Machines {
		nodes = append(nodes, m.Node())
	}
	return quorum.Orphans(s.etcd.members, nodes)
}

const nobodyToAsk = "no other etcd member is healthy"

// prepareTermination lets a machine that has been drained go: its etcd member
// hands over the leadership and is removed, then the hook that holds the
// machine's infrastructure. One goes at a time; one that has to wait does not
// keep the others, for which it may be waiting.
func (r *Reconciler) prepareTermination(ctx context.Context, s *state) (phase.Next, error) {
	for _, m := range s.Machines {
		if _, held := m.Annotations[controlplanev1.PreTerminateHookCleanupAnnotation]; !held || !m.Deleting() {
			continue
		}
		if len(s.Machines) > 1 && s.Cluster.DeletionTimestamp.IsZero() {
			if why := notYet(m); why != "" {
				ctrl.LoggerFrom(ctx).V(2).Info("Waiting before a machine may terminate", "Machine", m.Name, "reason", why)
				continue // the Machine wakes us
			}
			why, err := r.leave(ctx, s, m)
			if err != nil {
				return phase.Continue(), fmt.Errorf("Machine %s: %w", m.Name, err)
			}
			if why != "" {
				s.held = append(s.held, fmt.Sprintf("Machine %s may not terminate yet: %s", m.Name, why))
				continue
			}
		}
		delete(m.Annotations, controlplanev1.PreTerminateHookCleanupAnnotation)
		ctrl.LoggerFrom(ctx).Info("Letting machine terminate", "Machine", m.Name)
		return phase.Continue(), nil
	}
	return phase.Continue(), nil
}

// notYet says why a machine's time has not come.
func notYet(m *kubeadmcontrolplane.Machine) string {
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

// leave takes a machine out of the control plane, or says why that has to wait:
// somebody must be left to serve the API, and a majority of etcd's members.
func (r *Reconciler) leave(ctx context.Context, s *state, m *kubeadmcontrolplane.Machine) (why string, err error) {
	if m.Node() == "" {
		return "", nil // it serves nobody
	}
	if kubeadmcontrolplane.Initialized(s.ControlPlane) && !kubeadmcontrolplane.ComponentsRemain(s.Machines, m) {
		return "no other machine would be left with healthy control plane components", nil // their Pods wake us
	}
	if !kubeadmcontrolplane.ManagesEtcd(s.ControlPlane) {
		return "", nil
	}
	if !s.etcd.asked() || s.etcd.listErr != nil {
		// The connection wakes us, or who asked etcd has said when to ask again.
		return fmt.Sprintf("the etcd members are not known: %v", cmp.Or(s.etcd.listErr, workload.ErrNotConnected)), nil
	}
	member := s.etcd.member(m.Node())
	if member == nil {
		return "", nil
	}
	return r.removeMember(ctx, s, m, *member)
}

// removeMember removes the etcd member of a machine, if a healthy majority is left.
func (r *Reconciler) removeMember(ctx context.Context, s *state, m *kubeadmcontrolplane.Machine, member quorum.Member) (why string, err error) {
	nodes := nodesBut(s, m)
	if len(nodes) == 0 {
		return nobodyToAsk, nil
	}
	c, err := r.connectEtcd(ctx, s, nodes...)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	// What is known may be minutes old: this cannot be undone, so look again.
	members, err := r.currentMembers(ctx, s, c)
	if err != nil {
		return "", err
	}
	if why := quorum.MayRemove(members, member.ID); why != "" {
		s.due(s.Now.Add(inspectAgain))
		return why, nil
	}
	if err := r.handOver(ctx, s, c, m, members); err != nil {
		return "", err
	}
	if err := c.Remove(ctx, member.ID); err != nil {
		return "", err
	}
	r.inspected.Forget(client.ObjectKeyFromObject(s.ControlPlane))
	ctrl.LoggerFrom(ctx).Info("Removed etcd member", "Machine", m.Name, "member", member.Name)
	return "", nil
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
func (r *Reconciler) handOver(ctx context.Context, s *state, c etcd.Client, leaving *kubeadmcontrolplane.Machine, members []quorum.Member) error {
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

func heirs(s *state, leaving *kubeadmcontrolplane.Machine) (all []quorum.Heir) {
	for _, m := range s.Machines {
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
