// SPDX-License-Identifier: Apache-2.0

package localmachine

import (
	"context"
	"errors"

	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/pause"
)

// TemplateReconciler has what the controller needs from outside. Setup checks it.
type TemplateReconciler struct {
	deps.Deps
	Backends localinfra.Backends
}

// Setup registers the controller.
func (r *TemplateReconciler) Setup(_ context.Context, mgr ctrl.Manager) error {
	if err := r.Check("localmachinetemplate"); err != nil {
		return err
	}
	if len(r.Backends.All()) == 0 {
		return errors.New("localmachinetemplate: Backends are required")
	}
	return controller.For(mgr, "localmachinetemplate", &infrav1.LocalMachineTemplate{}).Concurrency(2).Complete(r)
}

// Reconcile implements reconcile.ObjectReconciler.
func (r *TemplateReconciler) Reconcile(ctx context.Context, t *infrav1.LocalMachineTemplate) (ctrl.Result, error) {
	if !t.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	cluster, err := owner.Cluster(ctx, r.Mgmt, t)
	if err != nil || pause.Requested(cluster, t) {
		return ctrl.Result{}, err
	}
	backend, err := r.Backends.OfMachine(t.Spec.Template.Spec)
	if err != nil { // its machines report it
		ctrl.LoggerFrom(ctx).V(2).Info("Not knowing what the machines will have to offer", "reason", err.Error())
		return ctrl.Result{}, nil
	}
	commit := patch.Snapshot(r.Mgmt, t)
	reportOffer(t, backend.Offer(t.Spec.Template.Spec))
	return ctrl.Result{}, commit(ctx)
}

// reportOffer fills the status. It is pure.
func reportOffer(t *infrav1.LocalMachineTemplate, o localinfra.Offer) {
	t.Status.Capacity, t.Status.NodeInfo = o.Capacity, o.NodeInfo
}
