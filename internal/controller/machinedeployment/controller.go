// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/extensions"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/rollout"
)

const (
	name = "machinedeployment"

	// grace is how long after its creation a MachineDeployment does not report a
	// Cluster or a template that is not found: objects of the same manifest are
	// created a moment later. Creation timestamps are truncated to whole seconds,
	// hence two.
	grace = 2 * time.Second
)

// Reconciler has what the controller needs from outside. Setup checks it.
type Reconciler struct {
	deps.Deps
	// Extensions determine what can be updated in place; nil disables updates in
	// place.
	Extensions extensions.InPlaceHooks

	watcher provider.Watcher // set by Setup
}

// Setup registers the controller, its index and its watches.
func (r *Reconciler) Setup(ctx context.Context, mgr ctrl.Manager) (err error) {
	if err := r.Check("machinedeployment"); err != nil {
		return err
	}
	if err := provider.Index(ctx, mgr.GetFieldIndexer(), &clusterv1.MachineDeployment{}, templates); err != nil {
		return err
	}
	r.watcher, err = controller.For(mgr, name, &clusterv1.MachineDeployment{}).
		Owns(&clusterv1.MachineSet{}).
		Watches(&clusterv1.MachineSet{}, r.ofOrphan, controller.Orphan()).
		Watches(&clusterv1.Cluster{}, r.ofCluster, clusterMatters()).
		Concurrency(50).
		Build(r)
	return err
}

// Reconcile implements reconcile.ObjectReconciler.
func (r *Reconciler) Reconcile(ctx context.Context, md *clusterv1.MachineDeployment) (ctrl.Result, error) {
	return reconciler.Flow[*clusterv1.MachineDeployment, state]{
		Clock:     r.Clock,
		Observe:   r.observe,
		Snapshot:  func(*state) patch.Commit { return patch.Snapshot(r.Mgmt, md, patch.Debounced(r.Debounce)) },
		Finalizer: clusterv1.MachineDeploymentFinalizer,
		Cluster:   func(s *state) *clusterv1.Cluster { return s.cluster },
		Suppress:  func(s *state) bool { return !s.quietUntil.IsZero() },
		Prepare:   r.prepare,
		Normal: reconciler.InOrder(
			reconciler.Do("own the templates", r.ownTemplates),
			reconciler.Do("adopt MachineSets", r.adopt),
			reconciler.Do("roll out", r.rollOut)),
		Delete: reconciler.InOrder(
			reconciler.Do("own the templates", r.ownTemplates), // the deployment may be deleted before its first reconcile
			reconciler.Do("delete MachineSets", r.deleteSets)),
		Orphans:    true,
		Report:     func(s *state, failed error) { rollout.Report(s.facts(failed)) },
		Deprecated: reconciler.If(r.Deprecated, func(s *state, failed error) { rollout.ReportDeprecated(s.facts(failed)) }),
		Deadline:   func(s *state) time.Time { return s.quietUntil },
	}.Reconcile(ctx, md)
}
