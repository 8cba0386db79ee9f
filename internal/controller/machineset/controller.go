// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/scaling"
)

const (
	name = "machineset"

	// clusterGrace is how long after its creation a MachineSet does not report a
	// Cluster that is not found: a Cluster of the same manifest is created a moment
	// later. Creation timestamps are truncated to whole seconds, hence two.
	clusterGrace = 2 * time.Second
)

// Reconciler has what the controller needs from outside. Setup checks it.
type Reconciler struct {
	deps.Deps

	watcher provider.Watcher // set by Setup
}

// Setup registers the controller, its index and its watches.
func (r *Reconciler) Setup(ctx context.Context, mgr ctrl.Manager) (err error) {
	if err := r.Check("machineset"); err != nil {
		return err
	}
	if err := provider.Index(ctx, mgr.GetFieldIndexer(), &clusterv1.MachineSet{}, templates); err != nil {
		return err
	}
	r.watcher, err = controller.For(mgr, name, &clusterv1.MachineSet{}).
		Owns(&clusterv1.Machine{}).
		Watches(&clusterv1.Machine{}, r.ofOrphan, controller.Orphan()).
		Watches(&clusterv1.Cluster{}, r.ofCluster, clusterMatters()).
		Watches(&clusterv1.MachineDeployment{}, r.ofDeployment, predicate.GenerationChangedPredicate{}).
		Watches(&clusterv1.MachineSet{}, ofRecipient, receives()).
		Concurrency(50).
		Build(r)
	return err
}

// Reconcile implements reconcile.ObjectReconciler.
func (r *Reconciler) Reconcile(ctx context.Context, set *clusterv1.MachineSet) (ctrl.Result, error) {
	return reconciler.Flow[*clusterv1.MachineSet, state]{
		Clock:     r.Clock,
		Observe:   r.observe,
		Snapshot:  func(*state) patch.Commit { return patch.Snapshot(r.Mgmt, set, patch.Debounced(r.Debounce)) },
		Finalizer: clusterv1.MachineSetFinalizer,
		Cluster:   func(s *state) *clusterv1.Cluster { return s.cluster },
		Suppress:  func(s *state) bool { return !s.quietUntil.IsZero() },
		Prepare:   r.prepare,
		Normal: reconciler.All(
			reconciler.Do("preflight", r.preflight),
			reconciler.Do("adopt", r.adopt),
			reconciler.Do("remediate", r.remediate),
			reconciler.Do("synchronise", r.synchronise),
			reconciler.Do("update in place", r.update),
			reconciler.Do("scale", r.scale)),
		Delete:     reconciler.InOrder(reconciler.Do("delete Machines", r.deleteMachines)),
		Orphans:    true,
		Report:     func(s *state, failed error) { scaling.Report(s.facts(failed)) },
		Deprecated: reconciler.If(r.Deprecated, func(s *state, failed error) { scaling.ReportDeprecated(s.facts(failed)) }),
		Deadline:   func(s *state) time.Time { return s.quietUntil },
	}.Reconcile(ctx, set)
}
