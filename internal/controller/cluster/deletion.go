// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/finalizer"
	"github.com/capstan-dev/capstan/internal/kit/phase"
	"github.com/capstan-dev/capstan/internal/pure/claim"
)

// stage is how far a deletion has come.
type stage struct{ reason, message string }

// delete takes the Cluster away in order. Every step waits for a watch.
func (r *Reconciler) delete(ctx context.Context, s *state) (ctrl.Result, error) {
	return phase.InOrder(ctx, s,
		phase.Do("delete workers", r.deleteWorkers),
		phase.Do("delete control plane", r.deleteControlPlane),
		phase.Do("delete infrastructure", r.deleteInfrastructure),
		phase.Do("finish", r.finish))
}

// deleteWorkers deletes what the Cluster itself holds; sets and deployments
// delete their own.
func (r *Reconciler) deleteWorkers(ctx context.Context, s *state) (phase.Next, error) {
	s.stage = stage{clusterv1.ClusterDeletingWaitingForWorkersDeletionReason, "Waiting for " + s.left()}
	var errs []error
	for _, obj := range s.held() {
		if !obj.GetDeletionTimestamp().IsZero() {
			continue
		}
		if err := r.Mgmt.Delete(ctx, obj); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("delete %T %s: %w", obj, client.ObjectKeyFromObject(obj), err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return phase.Continue(), err
	}
	if len(s.deployments)+s.allSets+len(s.pools)+len(s.workers) > 0 {
		return phase.Wait(0), nil
	}
	return phase.Continue(), nil
}

// held lists what nobody else will delete.
func (s *state) held() (all []client.Object) {
	for _, d := range s.deployments {
		all = append(all, d)
	}
	for _, set := range s.sets {
		all = append(all, set)
	}
	for _, p := range s.pools {
		all = append(all, p)
	}
	for _, m := range s.workers {
		if isStandalone(m) {
			all = append(all, m)
		}
	}
	return all
}

// left says what of the workers is still there.
func (s *state) left() string {
	var parts []string
	count := func(kind string, n int) {
		if n > 0 {
			parts = append(parts, conditions.Count(n, kind))
		}
	}
	count("MachineDeployment", len(s.deployments))
	count("MachineSet", s.allSets)
	count("MachinePool", len(s.pools))
	count("worker Machine", len(s.workers))
	return strings.Join(parts, ", ") + " to be deleted"
}

func (r *Reconciler) deleteControlPlane(ctx context.Context, s *state) (phase.Next, error) {
	if !s.controlPlane.Ref.IsDefined() {
		return r.deleteControlPlaneMachines(ctx, s)
	}
	s.stage = stage{clusterv1.ClusterDeletingWaitingForControlPlaneDeletionReason, fmt.Sprintf("Waiting for %s to be deleted", s.controlPlane)}
	next, err := r.deleteReferred(ctx, s, &s.controlPlane)
	if s.controlPlane.Held() && err == nil {
		return r.deleteControlPlaneMachines(ctx, s)
	}
	return next, err
}

// deleteControlPlaneMachines deletes control plane Machines that users made
// without a control plane object.
func (r *Reconciler) deleteControlPlaneMachines(ctx context.Context, s *state) (phase.Next, error) {
	if len(s.controllers) == 0 {
		return phase.Continue(), nil
	}
	s.stage = stage{clusterv1.ClusterDeletingWaitingForControlPlaneDeletionReason, fmt.Sprintf("Waiting for %s to be deleted", conditions.Count(len(s.controllers), "control plane Machine"))}
	var errs []error
	for _, m := range s.controllers {
		if m.DeletionTimestamp.IsZero() {
			if err := r.Mgmt.Delete(ctx, m); client.IgnoreNotFound(err) != nil {
				errs = append(errs, fmt.Errorf("delete Machine %s: %w", client.ObjectKeyFromObject(m), err))
			}
		}
	}
	return phase.Wait(0), errors.Join(errs...)
}

func (r *Reconciler) deleteInfrastructure(ctx context.Context, s *state) (phase.Next, error) {
	if !s.infra.Ref.IsDefined() {
		return phase.Continue(), nil
	}
	s.stage = stage{clusterv1.ClusterDeletingWaitingForInfrastructureDeletionReason, fmt.Sprintf("Waiting for %s to be deleted", s.infra)}
	return r.deleteReferred(ctx, s, &s.infra)
}

// deleteReferred deletes the object behind a reference and waits until it has
// gone. What belongs to somebody else stays. A kind without a CRD has no
// objects. If a CRD is there but cannot be used, an object of it may exist: so
// that is an error to be mended.
func (r *Reconciler) deleteReferred(ctx context.Context, s *state, ref *provider.Reference) (phase.Next, error) {
	err := r.look(ctx, s, ref)
	if ref.Gone() {
		return phase.Continue(), nil
	}
	if err != nil {
		s.stage.message += ": " + err.Error()
		return phase.Continue(), err
	}
	if err := r.Providers.Remove(ctx, ref, claim.ByCluster(s.cluster)); err != nil {
		return phase.Continue(), err
	}
	if ref.Held() {
		ctrl.LoggerFrom(ctx).Info("Leaving alone what the Cluster refers to", ref.Ref.Kind, ref.Ref.Name, "reason", ref.Err.Error())
		return phase.Continue(), nil
	}
	return phase.Wait(0), nil
}

func (r *Reconciler) finish(ctx context.Context, s *state) (phase.Next, error) {
	s.stage = stage{clusterv1.ClusterDeletingDeletionCompletedReason, "Deletion completed"}
	finalizer.Remove(s.cluster, clusterv1.ClusterFinalizer)
	ctrl.LoggerFrom(ctx).Info("Deleted the Cluster")
	r.event(s, "Deleted", "Delete", "Everything of the Cluster is deleted")
	return phase.Continue(), nil
}
