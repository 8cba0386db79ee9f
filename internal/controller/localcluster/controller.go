// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/host"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/finalizer"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/pause"
	"github.com/capstan-dev/capstan/internal/kit/phase"
)

// Reconciler has what the controller needs from outside. All fields are
// required; Setup checks them.
type Reconciler struct {
	Mgmt     client.Client // the management cluster
	Backends host.Backends
	Clock    clock.PassiveClock // of conditions
	Recorder events.EventRecorder
}

// formerFinalizer is what the finalizer was called while its name had no path,
// of which API servers warn.
const formerFinalizer = "localcluster.infrastructure.capstan.dev"

// Setup registers the controller and its watches.
func (r *Reconciler) Setup(_ context.Context, mgr ctrl.Manager) error {
	if r.Mgmt == nil || len(r.Backends.All()) == 0 || r.Clock == nil || r.Recorder == nil {
		return errors.New("localcluster: Mgmt, Backends, Clock and Recorder are required")
	}
	return controller.For(mgr, "localcluster", &infrav1.LocalCluster{}).
		WatchesSource(controller.Removed(mgr.GetCache(), &infrav1.LocalCluster{}, r.removed)).
		Watches(&clusterv1.Cluster{}, ofCluster, clusterMatters()).
		Concurrency(10).
		Complete(r)
}

// Reconcile implements reconcile.ObjectReconciler.
func (r *Reconciler) Reconcile(ctx context.Context, lc *infrav1.LocalCluster) (_ ctrl.Result, err error) {
	if _, external := lc.Annotations[clusterv1.ManagedByAnnotation]; external {
		return ctrl.Result{}, nil
	}
	s, err := r.observe(ctx, lc)
	if err != nil {
		return ctrl.Result{}, err
	}
	deleting := !lc.DeletionTimestamp.IsZero()
	if s.cluster == nil && !deleting {
		ctrl.LoggerFrom(ctx).V(2).Info("Waiting for the Cluster controller to set the owner of the LocalCluster")
		return ctrl.Result{}, nil
	}
	commit := patch.Remember(r.Mgmt, lc)
	added := finalizer.Ensure(lc, infrav1.LocalClusterFinalizer, formerFinalizer)
	if pause.Requested(s.cluster, lc) {
		// It has its finalizer all the same: deleted before the pause ends, it
		// would leave behind what a copy of it that was moved here stands for.
		conditions.Set(lc, s.now, pause.Condition(s.cluster, lc))
		return ctrl.Result{}, commit(ctx)
	}
	if added {
		return ctrl.Result{}, commit(ctx) // nothing happens outside before the finalizer is stored
	}
	defer func() {
		s.failed = err
		report(s)
		err = errors.Join(err, commit(ctx))
	}()
	if deleting {
		return phase.InOrder(phase.Do("delete infrastructure", r.remove))(ctx, s)
	}
	return phase.InOrder(phase.Do("endpoint", r.endpoint))(ctx, s)
}
