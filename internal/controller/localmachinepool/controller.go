// SPDX-License-Identifier: Apache-2.0

package localmachinepool

import (
	"context"
	"errors"

	ctrl "sigs.k8s.io/controller-runtime"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
)

// Reconciler has what the controller needs from outside. Setup checks it.
type Reconciler struct {
	deps.Deps
	Backends localinfra.Backends
}

// Setup registers the controller and its watches.
func (r *Reconciler) Setup(ctx context.Context, mgr ctrl.Manager) error {
	if err := r.Check("localmachinepool"); err != nil {
		return err
	}
	if len(r.Backends.All()) == 0 {
		return errors.New("localmachinepool: Backends are required")
	}
	if err := index.ByLabel(ctx, mgr.GetFieldIndexer(), &infrav1.LocalMachinePool{}); err != nil {
		return err
	}
	return controller.For(mgr, "localmachinepool", &infrav1.LocalMachinePool{}).
		Watches(&infrav1.LocalMachine{}, r.ofLocalMachine, localMachineMatters()).
		Watches(&clusterv1.Machine{}, r.ofMachine, machineMatters()).
		Watches(&clusterv1.MachinePool{}, ofMachinePool, machinePoolMatters()).
		Watches(&clusterv1.Cluster{}, r.ofCluster, clusterMatters()).
		Concurrency(10).
		Complete(r)
}

// Reconcile implements reconcile.ObjectReconciler.
func (r *Reconciler) Reconcile(ctx context.Context, pool *infrav1.LocalMachinePool) (ctrl.Result, error) {
	return reconciler.Flow[*infrav1.LocalMachinePool, state]{
		Clock:   r.Clock,
		Observe: r.observe,
		Snapshot: func(*state) patch.Commit {
			return patch.Snapshot(r.Mgmt, pool, patch.Debounced(r.Debounce, "instances"))
		},
		Finalizer: infrav1.LocalMachinePoolFinalizer,
		Cluster:   func(s *state) *clusterv1.Cluster { return s.cluster },
		Normal: reconciler.InOrder(
			reconciler.Do("wait", r.waitForOthers),
			reconciler.Do("hold machines", r.hold),
			reconciler.Do("scale", r.scale)),
		Delete: reconciler.InOrder(reconciler.Do("delete machines", r.deleteAll)),
		Report: report,
	}.Reconcile(ctx, pool)
}
