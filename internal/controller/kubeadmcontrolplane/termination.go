// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/etcd"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/controlplane"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/quorum"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
)

const (
	// quorumAgain is the delay before members are listed again that cannot lose
	// one.
	quorumAgain = 3 * time.Second

	// atOnce is the delay after a removal: the remaining members are then read
	// again.
	atOnce = time.Millisecond
)

// removeOrphans removes an etcd member whose machine was deleted, one at a time.
func (r *Reconciler) removeOrphans(ctx context.Context, s *state) (reconciler.Next, error) {
	for _, orphan := range controlplane.Orphans(s.Facts) {
		if orphan.Keep != "" {
			ctrl.LoggerFrom(ctx).V(2).Info("Keeping an etcd member that has no machine", "member", orphan.String(), "reason", orphan.Keep)
			continue
		}
		c, err := r.connectEtcd(ctx, s, s.Askable(nil)...)
		if err != nil {
			return reconciler.Continue(), err
		}
		ctrl.LoggerFrom(ctx).Info("Removing etcd member", "member", orphan.String(), "reason", "it has no machine")
		if err := errors.Join(c.Remove(ctx, orphan.ID), c.Close()); err != nil {
			return reconciler.Continue(), err
		}
		r.inspected.Forget(client.ObjectKeyFromObject(s.ControlPlane))
		return reconciler.Wait(atOnce), nil
	}
	return reconciler.Continue(), nil
}

// prepareTermination releases a drained machine: its etcd member transfers the
// leadership and is removed, then the hook that delays the deletion of the
// machine's infrastructure. Machines are released one at a time; a machine that has
// to wait does not delay the others, for which it may be waiting.
func (r *Reconciler) prepareTermination(ctx context.Context, s *state) (reconciler.Next, error) {
	next := reconciler.Continue()
	for _, t := range controlplane.Terminations(s.Facts) {
		m := t.Machine
		if t.Early != "" {
			ctrl.LoggerFrom(ctx).V(2).Info("Waiting before a machine may terminate", "Machine", m.Name, "reason", t.Early)
			continue // the Machine triggers a reconcile
		}
		if t.Member != nil {
			var err error
			if t.Wait, err = r.removeMember(ctx, s, m, *t.Member); err != nil {
				return next, fmt.Errorf("Machine %s: %w", m.Name, err)
			}
			if t.Wait != "" {
				next = reconciler.RequeueAfter(quorumAgain)
			}
		}
		if t.Wait != "" {
			s.Held = append(s.Held, fmt.Sprintf("Machine %s may not terminate yet: %s", m.Name, t.Wait))
			continue
		}
		delete(m.Annotations, controlplanev1.PreTerminateHookCleanupAnnotation)
		ctrl.LoggerFrom(ctx).Info("Letting machine terminate", "Machine", m.Name)
		return next, nil
	}
	return next, nil
}

// removeMember removes the etcd member of a machine, if a healthy majority is left.
func (r *Reconciler) removeMember(ctx context.Context, s *state, m *controlplane.Machine, member quorum.Member) (why string, err error) {
	c, err := r.connectEtcd(ctx, s, s.Askable(m)...)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	// The facts may be minutes old: the removal cannot be undone, so list again.
	list, err := listMembers(ctx, c)
	if err != nil {
		return "", err
	}
	members := s.Etcd.With(list)
	if why := quorum.MayRemove(members, member.ID); why != "" {
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

// handOver moves the etcd leadership from a machine's member to another one.
func (r *Reconciler) handOver(ctx context.Context, s *state, c etcd.Client, leaving *controlplane.Machine, members []quorum.Member) error {
	status, err := c.Status(ctx)
	if err != nil {
		return err
	}
	if member := s.Etcd.Member(leaving.Node()); member == nil || status.Leader != member.ID {
		return nil
	}
	var errs []error
	for _, heir := range quorum.Candidates(members, controlplane.LeaderCandidates(s.Facts, leaving)) {
		if err := c.MoveLeader(ctx, heir.ID); err != nil {
			errs = append(errs, err)
			continue
		}
		ctrl.LoggerFrom(ctx).Info("Moved the leadership of etcd", "from", leaving.Node(), "to", heir.Name)
		return nil
	}
	return fmt.Errorf("no other member could take the leadership of etcd: %w", errors.Join(errs...))
}
