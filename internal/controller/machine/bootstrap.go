// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/machinestatus"
)

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
