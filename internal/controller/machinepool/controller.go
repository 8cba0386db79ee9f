// SPDX-License-Identifier: Apache-2.0

package machinepool

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/metadata"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/machinepool"
)

const (
	name = "machinepool"

	// fieldOwner signs what the controller writes on Machines and provider objects.
	fieldOwner = metadata.MachinePools

	// remoteGrace is how long the last known state of Nodes is shown after the
	// connection to their cluster was lost.
	remoteGrace = 5 * time.Minute
)

// Reconciler has what the controller needs from outside. Setup checks it.
type Reconciler struct {
	deps.Deps

	watcher provider.Watcher // set by Setup
}

// Setup registers the controller, its indexes and its watches.
func (r *Reconciler) Setup(ctx context.Context, mgr ctrl.Manager) (err error) {
	if err := r.Check("machinepool"); err != nil {
		return err
	}
	if err := makeIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	r.watcher, err = controller.For(mgr, name, &clusterv1.MachinePool{}).
		Owns(&clusterv1.Machine{}).
		Watches(&clusterv1.Cluster{}, r.ofCluster, clusterMatters()).
		WatchesSource(r.Workload.Source(nil, r.ofConnection)).
		WatchesSource(r.Workload.Source(&corev1.Node{}, r.ofNode)).
		Concurrency(50).
		Build(r)
	return err
}

// Reconcile implements reconcile.ObjectReconciler.
func (r *Reconciler) Reconcile(ctx context.Context, p *clusterv1.MachinePool) (ctrl.Result, error) {
	return reconciler.Flow[*clusterv1.MachinePool, state]{
		Clock:     r.Clock,
		Observe:   r.observe,
		Snapshot:  func(*state) patch.Commit { return patch.Snapshot(r.Mgmt, p, patch.Debounced(r.Debounce)) },
		Finalizer: clusterv1.MachinePoolFinalizer,
		Cluster:   func(s *state) *clusterv1.Cluster { return s.cluster },
		Prepare:   prepare,
		Normal: reconciler.All(
			reconciler.Do("bootstrap", r.bootstrap),
			reconciler.Do("infrastructure", r.infrastructure),
			reconciler.Do("machines", r.keepMachines),
			reconciler.Do("nodes", r.keepNodes)),
		Delete: reconciler.InOrder(
			reconciler.Do("delete", r.deleteReferences),
			reconciler.Do("delete Nodes", r.deleteNodes)),
		Report:     func(s *state, failed error) { machinepool.FillStatus(s.facts(failed)) },
		Deprecated: reconciler.If(r.Deprecated, func(s *state, failed error) { machinepool.FillDeprecated(s.facts(failed)) }),
		Deadline:   func(s *state) time.Time { return machinepool.Deadline(s.facts(nil)) },
	}.Reconcile(ctx, p)
}
