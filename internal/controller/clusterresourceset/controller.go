// SPDX-License-Identifier: Apache-2.0

package clusterresourceset

import (
	"context"
	"errors"

	ctrl "sigs.k8s.io/controller-runtime"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/resourcesets"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
)

const name = "clusterresourceset"

// Reconciler has what the controller needs from outside. Setup checks it.
type Reconciler struct {
	deps.Deps
	Payloads *resourcesets.Store
}

// Setup registers the controller and its watches.
func (r *Reconciler) Setup(_ context.Context, mgr ctrl.Manager) error {
	if err := r.Check("clusterresourceset"); err != nil {
		return err
	}
	if r.Payloads == nil {
		return errors.New("clusterresourceset: Payloads are required")
	}
	b := controller.For(mgr, name, &addonsv1.ClusterResourceSet{}).
		Watches(&clusterv1.Cluster{}, r.ofCluster, clusterMatters()).
		Watches(&addonsv1.ClusterResourceSetBinding{}, ofBinding).
		Watches(&addonsv1.ClusterResourceSet{}, r.siblings, stepsBack())
	for _, src := range r.Payloads.Sources(r.ofPayload) {
		b.WatchesSource(src)
	}
	return b.Complete(r)
}

// Reconcile implements reconcile.ObjectReconciler.
func (r *Reconciler) Reconcile(ctx context.Context, set *addonsv1.ClusterResourceSet) (ctrl.Result, error) {
	return reconciler.Flow[*addonsv1.ClusterResourceSet, state]{
		Clock:     r.Clock,
		Observe:   r.observe,
		Snapshot:  func(*state) patch.Commit { return patch.Snapshot(r.Mgmt, set, patch.Debounced(r.Debounce)) },
		Finalizer: addonsv1.ClusterResourceSetFinalizer,
		Normal: reconciler.All(
			reconciler.Do("own the resources", r.ownResources),
			reconciler.Do("make bindings", r.makeBindings)),
		Delete:     reconciler.InOrder(reconciler.Do("wait for bindings", waitForBindings)),
		Report:     r.report,
		Deprecated: reconciler.If(r.Deprecated, r.reportDeprecated),
	}.Reconcile(ctx, set)
}
