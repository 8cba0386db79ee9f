// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/finalizer"
	"github.com/capstan-dev/capstan/internal/kit/phase"
	"github.com/capstan-dev/capstan/internal/pure/claim"
	"github.com/capstan-dev/capstan/internal/simulated"
)

// endpoint makes the endpoint, and keeps what is behind it as it is wanted.
func (r *Reconciler) endpoint(ctx context.Context, s *state) (phase.Next, error) {
	lc, key := s.local, s.key()
	// A second LocalCluster with the same owner would take the place of the
	// first.
	if ref := s.cluster.Spec.InfrastructureRef; !claim.Names(ref, localKind, lc.Name) {
		s.waiting = fmt.Sprintf("Waiting for spec.infrastructureRef of Cluster %s to name this LocalCluster: it names %s %q", s.cluster.Name, ref.Kind, ref.Name)
		ctrl.LoggerFrom(ctx).V(2).Info("Waiting for the Cluster to refer to the LocalCluster")
		return phase.Wait(0), nil
	}
	want := simulated.Cluster{Namespace: key.Namespace, Name: key.Name, UID: lc.UID, Endpoint: lc.Spec.ControlPlaneEndpoint}
	if lc.Spec.Simulated != nil {
		want.Faults = lc.Spec.Simulated.Faults
	}
	at, err := r.Backend.EnsureCluster(ctx, want)
	if err != nil {
		return phase.Continue(), err
	}
	lc.Spec.ControlPlaneEndpoint = at
	if !provisioned(lc) {
		ctrl.LoggerFrom(ctx).Info("Infrastructure is provisioned", "endpoint", at.String())
		r.Recorder.Eventf(lc, s.cluster, corev1.EventTypeNormal, "Provisioned", "Provision", "control plane endpoint is %s", at.String())
	}
	lc.Status.Initialization.Provisioned = new(true)
	lc.Status.FailureDomains = lc.Spec.FailureDomains
	return phase.Continue(), nil
}

// remove takes the endpoint away, with all that runs behind it.
func (r *Reconciler) remove(ctx context.Context, s *state) (phase.Next, error) {
	ctrl.LoggerFrom(ctx).Info("Deleting infrastructure", "endpoint", s.local.Spec.ControlPlaneEndpoint.String())
	if err := r.Backend.DeleteCluster(ctx, s.local.UID); err != nil {
		return phase.Continue(), err
	}
	finalizer.Remove(s.local, infrav1.LocalClusterFinalizer, formerFinalizer)
	return phase.Continue(), nil
}

// removed takes the endpoint of a LocalCluster away that went without its
// finalizer.
func (r *Reconciler) removed(ctx context.Context, lc *infrav1.LocalCluster) {
	if err := r.Backend.DeleteCluster(ctx, lc.UID); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Deleting the infrastructure of a LocalCluster that has gone", "LocalCluster", klog.KObj(lc))
	}
}

func provisioned(lc *infrav1.LocalCluster) bool {
	p := lc.Status.Initialization.Provisioned
	return p != nil && *p
}
