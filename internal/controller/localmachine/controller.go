// SPDX-License-Identifier: Apache-2.0

package localmachine

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

// formerFinalizer is what the finalizer was called while its name had no path,
// of which API servers warn.
const formerFinalizer = "localmachine.infrastructure.capstan.dev"

// Setup registers the controller and its watches.
func (r *Reconciler) Setup(ctx context.Context, mgr ctrl.Manager) error {
	if err := r.Check("localmachine"); err != nil {
		return err
	}
	if len(r.Backends.All()) == 0 {
		return errors.New("localmachine: Backends are required")
	}
	if err := index.ByLabel(ctx, mgr.GetFieldIndexer(), &infrav1.LocalMachine{}); err != nil {
		return err
	}
	var changes []controller.Names
	for _, backend := range r.Backends.All() {
		changes = append(changes, backend.MachineChanges)
	}
	changed, err := controller.Follow(mgr, changes...)
	if err != nil {
		return err
	}
	return controller.For(mgr, "localmachine", &infrav1.LocalMachine{}).
		WatchesSource(controller.Removed(mgr.GetCache(), &infrav1.LocalMachine{}, r.removed)).
		Watches(&clusterv1.Machine{}, ofMachine, machineMatters()).
		Watches(&clusterv1.MachinePool{}, r.ofMachinePool, machinePoolMatters()).
		Watches(&clusterv1.Cluster{}, r.ofCluster, clusterMatters()).
		WatchesSource(changed).
		Concurrency(20).
		Complete(r)
}

// Reconcile implements reconcile.ObjectReconciler.
func (r *Reconciler) Reconcile(ctx context.Context, lm *infrav1.LocalMachine) (ctrl.Result, error) {
	return reconciler.Flow[*infrav1.LocalMachine, state]{
		Clock:     r.Clock,
		Observe:   r.observe,
		Snapshot:  func(*state) patch.Commit { return patch.Snapshot(r.Mgmt, lm, patch.Debounced(r.Debounce)) },
		Finalizer: infrav1.LocalMachineFinalizer,
		Former:    []string{formerFinalizer},
		Cluster:   func(s *state) *clusterv1.Cluster { return s.cluster },
		Normal: reconciler.InOrder(
			reconciler.Do("wait", r.waitForOthers),
			reconciler.Do("bootstrap data", r.readBootstrapData),
			reconciler.Do("machine", r.run)),
		Delete: reconciler.InOrder(reconciler.Do("delete machine", r.remove)),
		Report: report,
	}.Reconcile(ctx, lm)
}
