// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/phase"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
)

// Reconciler has what the controller needs from outside. All fields are
// required; Setup checks them.
type Reconciler struct {
	Mgmt     client.Client // the management cluster
	Backends localinfra.Backends
	Clock    clock.PassiveClock // of conditions
}

// formerFinalizer is what the finalizer was called while its name had no path,
// of which API servers warn.
const formerFinalizer = "localcluster.infrastructure.capstan.dev"

// Setup registers the controller and its watches.
func (r *Reconciler) Setup(ctx context.Context, mgr ctrl.Manager) error {
	if r.Mgmt == nil || len(r.Backends.All()) == 0 || r.Clock == nil {
		return errors.New("localcluster: Mgmt, Backends and Clock are required")
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
		Clock:     r.Clock,
		Observe:   r.observe,
		Remember:  func(*state) patch.Commit { return patch.Remember(r.Mgmt, lc) },
		Finalizer: infrav1.LocalClusterFinalizer,
		Former:    []string{formerFinalizer},
		Cluster:   func(s *state) *clusterv1.Cluster { return s.cluster },
		Live:      phase.InOrder(phase.Do("endpoint", r.endpoint)),
		End:       phase.InOrder(phase.Do("delete infrastructure", r.remove)),
		Rest:      phase.InOrder(phase.Do("keep running", r.resume)),
		Report:    report,
	}.Reconcile(ctx, lc)
}
