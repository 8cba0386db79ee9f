// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"

	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/machinestatus"
)

// infrastructure adopts the infrastructure machine and copies its reported fields
// to the Machine.
func (r *Reconciler) infrastructure(ctx context.Context, s *state) (reconciler.Next, error) {
	m, ref := s.machine, &s.infraMachine
	if err := r.look(ctx, s, ref); err != nil {
		return reconciler.Continue(), err
	}
	if ref.Missing {
		if ptr.Deref(m.Status.Initialization.InfrastructureProvisioned, false) {
			return reconciler.Continue(), reconcile.TerminalError(fmt.Errorf("%s %s/%s has been deleted while the Machine still exists: delete the Machine to replace it", ref.Ref.Kind, m.Namespace, ref.Ref.Name))
		}
		return reconciler.Continue(), nil
	}
	if err := r.take(ctx, s, ref); err != nil || ref.Held() {
		return reconciler.Continue(), err
	}
	taken, err := machinestatus.TakeHost(m, ref.Obj.Unstructured, ref.Obj.Contract)
	if taken.News { // no event: conditions report it, and the Node is next
		ctrl.LoggerFrom(ctx).Info("Infrastructure is provisioned", ref.Ref.Kind, ref.Ref.Name, "providerID", m.Spec.ProviderID)
	}
	s.hostLacks = taken.Lacks
	return reconciler.Continue(), ref.Failed(err)
}

// interruptible reports whether the infrastructure may terminate the infrastructure
// machine at any time.
func interruptible(s *state) bool {
	if s.infraMachine.Obj == nil {
		return false
	}
	c, err := contract.InfraMachineFor(s.infraMachine.Obj.Contract)
	if err != nil {
		return false // the infrastructure phase has reported it
	}
	yes, _, err := c.Interruptible.Get(s.infraMachine.Obj.Unstructured)
	return err == nil && yes
}

// bootstrap adopts the bootstrap config and, when that has created its data,
// records the Secret.
func (r *Reconciler) bootstrap(ctx context.Context, s *state) (reconciler.Next, error) {
	m, ref := s.machine, &s.bootstrapConfig
	if !ref.Ref.IsDefined() { // the user provides the Secret, or no data is needed
		machinestatus.BroughtData(m)
		return reconciler.Continue(), nil
	}
	if err := r.look(ctx, s, ref); err != nil || ref.Missing {
		return reconciler.Continue(), err
	}
	if err := r.take(ctx, s, ref); err != nil || ref.Held() || machinestatus.BroughtData(m) {
		return reconciler.Continue(), err
	}
	taken, err := machinestatus.TakeData(m, ref.Obj.Unstructured, ref.Obj.Contract)
	if taken.News {
		ctrl.LoggerFrom(ctx).Info("Handing over bootstrap data", "Secret", *m.Spec.Bootstrap.DataSecretName)
	}
	s.dataLacks = taken.Lacks
	return reconciler.Continue(), ref.Failed(err)
}

// certificates notes when the certificates of a control plane machine expire.
func (r *Reconciler) certificates(_ context.Context, s *state) (reconciler.Next, error) {
	return reconciler.Continue(), machinestatus.TakeCertificatesExpiry(s.machine, s.bootstrapConfig.Known().Obj)
}
