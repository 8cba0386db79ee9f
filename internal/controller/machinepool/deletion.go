// SPDX-License-Identifier: Apache-2.0

package machinepool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/machinepool"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// deleteReferences deletes the Machines, so that their Nodes are drained, and at the same
// time the objects to which the pool refers, so that its provider creates no
// others. It waits until all are deleted.
func (r *Reconciler) deleteReferences(ctx context.Context, s *state) (reconciler.Next, error) {
	var errs []error
	var left []string
	for _, ref := range []*provider.Reference{&s.infra, &s.bootstrapConfig} {
		if there, err := r.remove(ctx, s, ref); there || err != nil {
			errs, left = append(errs, err), append(left, ref.String())
		}
	}
	going := slices.DeleteFunc(slices.Clone(s.machines), func(m *clusterv1.Machine) bool { return !m.DeletionTimestamp.IsZero() })
	for _, m := range going {
		errs = append(errs, r.delete(ctx, s, m, "delete "+m.Name+": the MachinePool is being deleted"))
	}
	if n := len(s.machines); n > 0 {
		left = append(left, conditions.Count(n, "Machine"))
	}
	err := errors.Join(errs...)
	if len(left) == 0 || err != nil {
		if err != nil {
			s.leaving = err.Error()
		}
		return reconciler.Continue(), err
	}
	s.leaving = fmt.Sprintf("Waiting for %s to be deleted", strings.Join(left, ", "))
	return reconciler.Wait(0), nil
}

// remove requests the deletion of the object behind a reference, and reports
// whether it still exists. An object with another owner stays, and does not count.
func (r *Reconciler) remove(ctx context.Context, s *state, ref *provider.Reference) (there bool, err error) {
	if !ref.Ref.IsDefined() {
		return false, nil
	}
	if err := r.look(ctx, s, ref); err != nil && !ref.Gone() {
		return true, err
	}
	if ref.Gone() {
		return false, nil
	}
	err = r.Providers.Remove(ctx, ref, reference.ByMachinePool(s.pool))
	return !ref.Held(), err
}

// deleteNodes deletes the remaining Nodes, which no Machine deleted, and then
// allows the deletion of the pool. The Nodes of a Cluster that is also being
// deleted are deleted with it.
func (r *Reconciler) deleteNodes(ctx context.Context, s *state) (reconciler.Next, error) {
	if s.cluster != nil && s.cluster.DeletionTimestamp.IsZero() && slices.ContainsFunc(s.pool.Status.NodeRefs, machinepool.Own) {
		failed := r.deleteNoted(ctx, s)
		left, bounded := s.nodeTimeLeft()
		if failed != nil && (!bounded || left > 0) {
			s.leaving = fmt.Sprintf("Waiting for the Nodes to be deleted: %v", failed)
			if s.remote.unseen != "" {
				return reconciler.Wait(left), nil
			}
			return reconciler.Wait(left), failed
		}
		if failed != nil {
			ctrl.LoggerFrom(ctx).Info("Leaving Nodes behind, the time for their deletion is over", "reason", failed.Error())
		}
	}
	s.pool.Status.NodeRefs = nil
	reconciler.RemoveFinalizers(s.pool, clusterv1.MachinePoolFinalizer)
	return reconciler.Continue(), nil
}

// deleteNoted deletes the Nodes of status.nodeRefs that belong to no other object.
func (r *Reconciler) deleteNoted(ctx context.Context, s *state) error {
	remote, err := r.connect(ctx, s)
	if err != nil {
		return err
	}
	if remote == nil {
		return errors.New(s.remote.unseen)
	}
	others, err := r.others(ctx, s)
	if err != nil {
		return err
	}
	noted, err := r.noted(ctx, s, remote, nil)
	if err != nil {
		return err
	}
	var errs []error
	for _, node := range machinepool.Leaving(others, noted) {
		errs = append(errs, r.deleteNode(ctx, s, remote, node))
	}
	return errors.Join(errs...)
}

// nodeTimeLeft is how much longer the deletion of Nodes is retried; without a
// timeout, or with a timeout of 0, it is unbounded.
func (s *state) nodeTimeLeft() (left time.Duration, bounded bool) {
	seconds := s.pool.Spec.Template.Spec.Deletion.NodeDeletionTimeoutSeconds
	if seconds == nil || *seconds == 0 {
		return 0, false
	}
	return s.pool.DeletionTimestamp.Add(time.Duration(*seconds) * time.Second).Sub(s.now), true
}
