// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/host"
	"github.com/capstan-dev/capstan/internal/kit/finalizer"
	"github.com/capstan-dev/capstan/internal/kit/phase"
	"github.com/capstan-dev/capstan/internal/pure/claim"
)

// endpoint makes the endpoint, and keeps what is behind it as it is wanted.
func (r *Reconciler) endpoint(ctx context.Context, s *state) (phase.Next, error) {
	lc := s.local
	// A second LocalCluster with the same owner would take the place of the
	// first.
	if ref := s.cluster.Spec.InfrastructureRef; !claim.Names(ref, localKind, lc.Name) {
		s.waiting = fmt.Sprintf("Waiting for spec.infrastructureRef of Cluster %s to name this LocalCluster: it names %s %q", s.cluster.Name, ref.Kind, ref.Name)
		ctrl.LoggerFrom(ctx).V(2).Info("Waiting for the Cluster to refer to the LocalCluster")
		return phase.Wait(0), nil
	}
	backend, err := r.Backends.OfCluster(lc.Spec)
	if err != nil {
		s.waiting = err.Error() // for another spec: no use in trying again
		return phase.Wait(0), nil
	}
	at, err := backend.EnsureCluster(ctx, host.Cluster{NamespacedName: s.key(), ID: host.ClusterID(lc), Spec: lc.Spec})
	if err != nil {
		if asked := lc.Spec.ControlPlaneEndpoint; !asked.IsZero() {
			s.refused = backend.CheckEndpoint(asked)
		}
		return phase.Continue(), err
	}
	lc.Spec.ControlPlaneEndpoint = at
	if !provisioned(lc) { // the Cluster tells by an event
		ctrl.LoggerFrom(ctx).Info("Infrastructure is provisioned", "endpoint", at.String())
	}
	lc.Status.Initialization.Provisioned = new(true)
	lc.Status.FailureDomains = lc.Spec.FailureDomains
	return phase.Continue(), nil
}

// remove takes the endpoint away, with all that runs behind it.
func (r *Reconciler) remove(ctx context.Context, s *state) (phase.Next, error) {
	backend, err := r.Backends.OfCluster(s.local.Spec)
	if err != nil && !errors.Is(err, host.ErrNotChosen) {
		s.waiting = err.Error() // what runs for it is where it was made
		return phase.Wait(0), nil
	}
	if err == nil {
		ctrl.LoggerFrom(ctx).Info("Deleting infrastructure", "endpoint", s.local.Spec.ControlPlaneEndpoint.String())
		if err := backend.DeleteCluster(ctx, host.ClusterID(s.local)); err != nil {
			return phase.Continue(), err
		}
	}
	finalizer.Remove(s.local, infrav1.LocalClusterFinalizer, formerFinalizer)
	return phase.Continue(), nil
}

// removed takes the endpoint of a LocalCluster away that went without its
// finalizer.
func (r *Reconciler) removed(ctx context.Context, lc *infrav1.LocalCluster) {
	backend, err := r.Backends.OfCluster(lc.Spec)
	if err == nil {
		err = backend.DeleteCluster(ctx, host.ClusterID(lc))
	}
	if err != nil && !errors.Is(err, host.ErrNotChosen) {
		ctrl.LoggerFrom(ctx).Error(err, "Deleting the infrastructure of a LocalCluster that has gone", "LocalCluster", klog.KObj(lc))
	}
}

func provisioned(lc *infrav1.LocalCluster) bool {
	p := lc.Status.Initialization.Provisioned
	return p != nil && *p
}
