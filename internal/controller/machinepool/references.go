// SPDX-License-Identifier: Apache-2.0

package machinepool

import (
	"context"
	"fmt"

	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/machinepool"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// bootstrap adopts the bootstrap config and, when that has created its data,
// records the Secret.
func (r *Reconciler) bootstrap(ctx context.Context, s *state) (reconciler.Next, error) {
	p, ref := s.pool, &s.bootstrapConfig
	if !ref.Ref.IsDefined() { // the user provides the Secret, or no data is needed
		if p.Spec.Template.Spec.Bootstrap.DataSecretName != nil {
			p.Status.Initialization.BootstrapDataSecretCreated = new(true)
		}
		return reconciler.Continue(), nil
	}
	if found, err := r.takeOver(ctx, s, ref); !found || err != nil {
		return reconciler.Continue(), err
	}
	var err error
	s.dataLacks, err = machinepool.TakeData(p, ref.Obj.Unstructured, ref.Obj.Contract)
	return reconciler.Continue(), ref.Failed(err)
}

// infrastructure adopts the infrastructure pool and copies its report about its
// machines.
func (r *Reconciler) infrastructure(ctx context.Context, s *state) (reconciler.Next, error) {
	p, ref := s.pool, &s.infra
	found, err := r.takeOver(ctx, s, ref)
	if ref.Missing && ptr.Deref(p.Status.Initialization.InfrastructureProvisioned, false) {
		return reconciler.Continue(), reconcile.TerminalError(fmt.Errorf("%s %s/%s has been deleted while the MachinePool still exists: delete the MachinePool, or restore the object from a backup", ref.Ref.Kind, p.Namespace, ref.Ref.Name))
	}
	if !found || err != nil {
		return reconciler.Continue(), err
	}
	s.infraReport, err = machinepool.TakeInfrastructure(p, ref.Obj.Unstructured, ref.Obj.Contract)
	if s.infraReport.News {
		ctrl.LoggerFrom(ctx).Info("Infrastructure is provisioned", ref.Ref.Kind, ref.Ref.Name)
	}
	return reconciler.Continue(), ref.Failed(err)
}

// takeOver reads the object behind a reference and sets owner and label. It reports
// whether there is one that may be read.
func (r *Reconciler) takeOver(ctx context.Context, s *state, ref *provider.Reference) (bool, error) {
	if err := r.look(ctx, s, ref); err != nil || ref.Missing {
		return false, err
	}
	err := r.Providers.Take(ctx, ref, provider.Adoption{Claim: reference.ByMachinePool(s.pool)})
	return err == nil && !ref.Held(), err
}
