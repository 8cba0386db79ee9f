// SPDX-License-Identifier: Apache-2.0

package clusterresourceset

import (
	"context"
	"errors"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/payloads"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/phase"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
)

const name = "clusterresourceset"

// Reconciler has what the controller needs from outside. All fields but the last
// two are required; Setup checks them.
type Reconciler struct {
	Mgmt     client.Client // the management cluster
	Payloads *payloads.Store
	Clock    clock.PassiveClock
	// Debounce joins status writes that follow each other closely; nil writes each
	// immediately.
	Debounce   *patch.StatusDebounce
	Deprecated bool // status.deprecated.v1beta1 is filled
}

// Setup registers the controller and its watches.
func (r *Reconciler) Setup(_ context.Context, mgr ctrl.Manager) error {
	if r.Mgmt == nil || r.Payloads == nil || r.Clock == nil {
		return errors.New("clusterresourceset: Mgmt, Payloads and Clock are required")
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
		Remember:  func(*state) patch.Commit { return patch.Remember(r.Mgmt, set, patch.Debounced(r.Debounce)) },
		Finalizer: addonsv1.ClusterResourceSetFinalizer,
		Live: phase.All(
			phase.Do("own the resources", r.ownResources),
			phase.Do("make bindings", r.makeBindings)),
		End:        phase.InOrder(phase.Do("wait for bindings", waitForBindings)),
		Report:     r.report,
		Deprecated: reconciler.If(r.Deprecated, r.reportDeprecated),
	}.Reconcile(ctx, set)
}
