// SPDX-License-Identifier: Apache-2.0

package localmachinetemplate

import (
	"context"
	"errors"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/pause"
	"github.com/capstan-dev/capstan/internal/simulated/bootstrap"
)

// Reconciler has what the controller needs from outside. All fields are
// required; Setup checks them.
type Reconciler struct {
	Mgmt client.Client // the management cluster
}

// Setup registers the controller.
func (r *Reconciler) Setup(_ context.Context, mgr ctrl.Manager) error {
	if r.Mgmt == nil {
		return errors.New("localmachinetemplate: Mgmt is required")
	}
	return controller.For(mgr, "localmachinetemplate", &infrav1.LocalMachineTemplate{}).Concurrency(2).Complete(r)
}

// Reconcile implements reconcile.ObjectReconciler.
func (r *Reconciler) Reconcile(ctx context.Context, t *infrav1.LocalMachineTemplate) (ctrl.Result, error) {
	if !t.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	cluster, err := owner.Cluster(ctx, r.Mgmt, t)
	if err != nil || pause.Requested(cluster, t) {
		return ctrl.Result{}, err
	}
	commit := patch.Remember(r.Mgmt, t)
	report(t)
	return ctrl.Result{}, commit(ctx)
}

// report fills the status. It is pure. Simulated machines are all alike.
func report(t *infrav1.LocalMachineTemplate) {
	t.Status.Capacity = bootstrap.Capacity()
	t.Status.NodeInfo = infrav1.NodeInfo{Architecture: bootstrap.Architecture, OperatingSystem: bootstrap.OperatingSystem}
}
