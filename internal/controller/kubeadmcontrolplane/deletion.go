// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"context"
	"errors"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/controlplane"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
)

// waitForWorkers delays the deletion of the control plane while it has workers.
func (r *Reconciler) waitForWorkers(ctx context.Context, s *state) (reconciler.Next, error) {
	var pools clusterv1.MachinePoolList
	if err := r.Mgmt.List(ctx, &pools, client.InNamespace(s.ControlPlane.Namespace), client.MatchingFields{index.ClusterName: s.Cluster.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return reconciler.Continue(), fmt.Errorf("list MachinePools: %w", err)
	}
	if s.Deletion = controlplane.BlockedBy(s.workers, pools.Items); s.Deletion.Reason == "" {
		return reconciler.Continue(), nil
	}
	return reconciler.Wait(0), nil // their deletion triggers a reconcile
}

// deleteMachines deletes all machines together: when the whole control plane is
// deleted, no etcd quorum has to be preserved.
func (r *Reconciler) deleteMachines(ctx context.Context, s *state) (reconciler.Next, error) {
	if len(s.Machines) == 0 {
		return reconciler.Continue(), nil
	}
	var errs []error
	var names []string
	for _, m := range s.Machines {
		names = append(names, m.Name)
		if _, held := m.Annotations[controlplanev1.PreTerminateHookCleanupAnnotation]; held {
			// First, because a Machine reports that it waits when it reaches its
			// hooks.
			delete(m.Annotations, controlplanev1.PreTerminateHookCleanupAnnotation)
			continue // its change triggers a reconcile
		}
		if m.Deleting() {
			continue
		}
		ctrl.LoggerFrom(ctx).Info("Deleting Machine", "Machine", m.Name, "reason", "the control plane is being deleted")
		err := r.Mgmt.Delete(ctx, m.Machine, client.Preconditions{UID: new(m.UID)})
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("delete Machine %s: %w", m.Name, err))
		}
	}
	s.Deletion = controlplane.Deletion{
		Reason:  controlplanev1.KubeadmControlPlaneDeletingWaitingForMachineDeletionReason,
		Message: fmt.Sprintf("Deleting %s: %s", conditions.Count(len(names), "Machine"), conditions.Names(names)),
	}
	return reconciler.Wait(0), errors.Join(errs...) // their deletion triggers a reconcile
}

// release allows the deletion of the control plane.
func release(_ context.Context, s *state) (reconciler.Next, error) {
	s.Deletion = controlplane.Deletion{Reason: controlplanev1.KubeadmControlPlaneDeletingDeletionCompletedReason, Message: "Deletion completed"}
	reconciler.RemoveFinalizers(s.ControlPlane, controlplanev1.KubeadmControlPlaneFinalizer)
	return reconciler.Continue(), nil
}
