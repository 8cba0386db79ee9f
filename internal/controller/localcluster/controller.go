// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
)

// Reconciler has what the controller needs from outside. Setup checks it.
type Reconciler struct {
	deps.Deps
	Backends localinfra.Backends
}

// formerFinalizer is what the finalizer was called while its name had no path,
// of which API servers warn.
const formerFinalizer = "localcluster.infrastructure.capstan.dev"

// Setup registers the controller and its watches.
func (r *Reconciler) Setup(ctx context.Context, mgr ctrl.Manager) error {
	if err := r.Check("localcluster"); err != nil {
		return err
	}
	if len(r.Backends.All()) == 0 {
		return errors.New("localcluster: Backends are required")
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &infrav1.LocalCluster{}, Identity, OfIdentity); err != nil {
		return fmt.Errorf("index LocalClusters by identity: %w", err)
	}
	var changes []controller.Names
	for _, backend := range r.Backends.All() {
		changes = append(changes, backend.ClusterChanges)
	}
	freed, err := controller.Follow(mgr, changes...)
	if err != nil {
		return err
	}
	return controller.For(mgr, "localcluster", &infrav1.LocalCluster{}).
		WatchesSource(controller.Removed(mgr.GetCache(), &infrav1.LocalCluster{}, r.removed)).
		WatchesSource(freed).
		Watches(&infrav1.LocalCluster{}, r.copies, gone()).
		Watches(&clusterv1.Cluster{}, ofCluster, clusterMatters()).
		Concurrency(10).
		Complete(r)
}

// Reconcile implements reconcile.ObjectReconciler.
func (r *Reconciler) Reconcile(ctx context.Context, lc *infrav1.LocalCluster) (ctrl.Result, error) {
	return reconciler.Flow[*infrav1.LocalCluster, state]{
		Clock:       r.Clock,
		Observe:     r.observe,
		Snapshot:    func(*state) patch.Commit { return patch.Snapshot(r.Mgmt, lc) },
		Finalizer:   infrav1.LocalClusterFinalizer,
		Former:      []string{formerFinalizer},
		Cluster:     func(s *state) *clusterv1.Cluster { return s.cluster },
		Normal:      reconciler.InOrder(reconciler.Do("endpoint", r.endpoint)),
		Delete:      reconciler.InOrder(reconciler.Do("delete infrastructure", r.remove)),
		WhilePaused: reconciler.InOrder(reconciler.Do("keep running", r.resume)),
		Report:      report,
	}.Reconcile(ctx, lc)
}
