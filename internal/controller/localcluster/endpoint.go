// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// endpoint creates the endpoint, and keeps the infrastructure behind it as desired.
func (r *Reconciler) endpoint(ctx context.Context, s *state) (reconciler.Next, error) {
	lc := s.local
	// A second LocalCluster with the same owner would replace the first.
	if ref := s.cluster.Spec.InfrastructureRef; !reference.Names(ref, localKind, lc.Name) {
		s.waiting = fmt.Sprintf("Waiting for spec.infrastructureRef of Cluster %s to name this LocalCluster: it names %s %q", s.cluster.Name, ref.Kind, ref.Name)
		ctrl.LoggerFrom(ctx).V(2).Info("Waiting for the Cluster to refer to the LocalCluster")
		return reconciler.Wait(0), nil
	}
	if s.first != "" {
		s.waiting = fmt.Sprintf("spec.identity is that of LocalCluster %s: delete this one, or create it again without identity and controlPlaneEndpoint", s.first)
		return reconciler.Wait(0), nil
	}
	backend, err := r.Backends.OfCluster(lc.Spec)
	if err != nil {
		s.waiting = err.Error() // until the spec changes: a retry would fail the same way
		return reconciler.Wait(0), nil
	}
	at, err := backend.EnsureCluster(ctx, s.wanted())
	if s.waiting = waits(err); s.waiting != "" {
		ctrl.LoggerFrom(ctx).V(2).Info("Waiting for the infrastructure", "reason", s.waiting)
		return reconciler.Wait(0), nil
	}
	if err != nil {
		if asked := lc.Spec.ControlPlaneEndpoint; !asked.IsZero() {
			s.refused = backend.CheckEndpoint(asked)
		}
		return reconciler.Continue(), err
	}
	lc.Spec.ControlPlaneEndpoint, lc.Spec.Identity = at, string(localinfra.ClusterID(lc))
	if !provisioned(lc) { // the Cluster controller emits the event
		ctrl.LoggerFrom(ctx).Info("Infrastructure is provisioned", "endpoint", at.String())
	}
	lc.Status.Initialization.Provisioned = new(true)
	lc.Status.FailureDomains = lc.Spec.FailureDomains
	return reconciler.Continue(), nil
}

// waits returns the condition that another holder must meet first, if err reports
// one. The backend sends a notification when it is met.
func waits(err error) string {
	if held, ok := errors.AsType[*localinfra.HeldError](err); ok {
		return fmt.Sprintf("Waiting for %s to release the infrastructure of this cluster", held.Holder)
	}
	if errors.Is(err, localinfra.ErrNotAllowed) {
		return err.Error()
	}
	if errors.Is(err, localinfra.ErrNotHere) {
		return err.Error() + ": put it back, or delete the Cluster"
	}
	return ""
}

// resume keeps a paused cluster running: a move pauses the cluster first, and no
// other controller handles it until the move is complete.
func (r *Reconciler) resume(ctx context.Context, s *state) (reconciler.Next, error) {
	backend, err := r.Backends.OfCluster(s.local.Spec)
	if err != nil || s.first != "" || s.local.Spec.ControlPlaneEndpoint.IsZero() {
		return reconciler.Wait(0), nil
	}
	err = backend.ResumeCluster(ctx, s.wanted())
	if waiting := waits(err); waiting != "" {
		ctrl.LoggerFrom(ctx).V(2).Info("Waiting for the infrastructure", "reason", waiting)
		return reconciler.Wait(0), nil
	}
	return reconciler.Continue(), err
}

// wanted returns the desired cluster.
func (s *state) wanted() localinfra.Cluster {
	w := named(s.local)
	w.NamespacedName, w.Spec = s.key(), s.local.Spec
	w.Made = s.local.Spec.Identity != "" && !s.local.Spec.ControlPlaneEndpoint.IsZero()
	return w
}

// named returns the fields by which a backend finds a cluster again.
func named(lc *infrav1.LocalCluster) localinfra.Cluster {
	return localinfra.Cluster{ID: localinfra.ClusterID(lc), Object: client.ObjectKeyFromObject(lc), UID: lc.UID}
}

// remove deletes the endpoint and all that runs behind it. A copy has no
// infrastructure.
func (r *Reconciler) remove(ctx context.Context, s *state) (reconciler.Next, error) {
	backend, err := r.Backends.OfCluster(s.local.Spec)
	if err != nil && !errors.Is(err, localinfra.ErrNotChosen) {
		s.waiting = err.Error() // its infrastructure is on the host that created it
		return reconciler.Wait(0), nil
	}
	if err == nil && s.first == "" {
		ctrl.LoggerFrom(ctx).Info("Deleting infrastructure", "endpoint", s.local.Spec.ControlPlaneEndpoint.String())
		if err := backend.DeleteCluster(ctx, named(s.local)); err != nil {
			return reconciler.Continue(), err
		}
	}
	reconciler.RemoveFinalizers(s.local, infrav1.LocalClusterFinalizer, formerFinalizer)
	return reconciler.Continue(), nil
}

// removed deletes the endpoint of a LocalCluster that disappeared without its
// finalizer, if its deletion was requested. Otherwise, for example after a move to
// another management cluster, it releases the infrastructure.
func (r *Reconciler) removed(ctx context.Context, lc *infrav1.LocalCluster, asked bool) {
	first, err := r.first(ctx, lc)
	backend, none := r.Backends.OfCluster(lc.Spec)
	switch {
	case err != nil || none != nil || first != "":
	case asked:
		err = backend.DeleteCluster(ctx, named(lc))
	default:
		err = backend.ReleaseCluster(ctx, named(lc))
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Leaving the infrastructure of a LocalCluster that has gone", "LocalCluster", klog.KObj(lc))
	}
}

func provisioned(lc *infrav1.LocalCluster) bool {
	p := lc.Status.Initialization.Provisioned
	return p != nil && *p
}
