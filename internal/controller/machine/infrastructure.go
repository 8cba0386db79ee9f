// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"

	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/kit/phase"
)

// infrastructure takes over the infrastructure machine and copies what it says
// about the host.
func (r *Reconciler) infrastructure(ctx context.Context, s *state) (phase.Next, error) {
	m, ref := s.machine, &s.infraMachine
	if err := r.look(ctx, s, ref); err != nil {
		return phase.Continue(), err
	}
	provisionedBefore := ptr.Deref(m.Status.Initialization.InfrastructureProvisioned, false)
	if ref.Missing {
		if provisionedBefore {
			return phase.Continue(), reconcile.TerminalError(fmt.Errorf("%s %s/%s has been deleted while the Machine still exists: delete the Machine to replace it", ref.Ref.Kind, m.Namespace, ref.Ref.Name))
		}
		return phase.Continue(), nil
	}
	if err := r.take(ctx, s, ref); err != nil || ref.Held() {
		return phase.Continue(), err
	}
	c, err := contract.InfraMachineFor(ref.Obj.Contract)
	if err != nil {
		return phase.Continue(), err
	}
	provisioned, _, err := c.Provisioned.Get(ref.Obj.Unstructured)
	if err != nil || (!provisioned && !provisionedBefore) {
		return phase.Continue(), err
	}
	id, _, err := c.ProviderID.Get(ref.Obj.Unstructured)
	if err != nil {
		return phase.Continue(), ref.Failed(err)
	}
	if id == "" { // if it was provisioned once, what is known stays
		if !provisionedBefore {
			s.hostLacks = c.ProviderID.String() // its provider sets it, which wakes us
		}
		return phase.Continue(), nil
	}
	m.Spec.ProviderID = id
	if err := copyHost(s, c); err != nil {
		return phase.Continue(), ref.Failed(err)
	}
	if !provisionedBefore {
		m.Status.Initialization.InfrastructureProvisioned = new(true)
		ctrl.LoggerFrom(ctx).Info("Infrastructure is provisioned", ref.Ref.Kind, ref.Ref.Name, "providerID", m.Spec.ProviderID)
		// No event: the infrastructure provider has told, and the Node comes next.
	}
	return phase.Continue(), nil
}

// copyHost copies what the infrastructure machine says to the Machine.
func copyHost(s *state, c contract.InfraMachine) error {
	m, obj := s.machine, s.infraMachine.Obj.Unstructured
	addresses, ok, err := c.Addresses.Get(obj)
	if err != nil {
		return err
	}
	if ok {
		m.Status.Addresses = addresses
	}
	wanted, ok, err := c.WantedFailureDomain.Get(obj)
	if err != nil {
		return err
	}
	if ok && wanted != "" {
		m.Spec.FailureDomain = wanted
	}
	actual, ok, err := c.FailureDomain.Get(obj)
	if err != nil {
		return err
	}
	if ok {
		m.Status.FailureDomain = actual
	}
	return nil
}

// interruptible reports whether the infrastructure may take the host away.
func interruptible(s *state) bool {
	if s.infraMachine.Obj == nil {
		return false
	}
	c, err := contract.InfraMachineFor(s.infraMachine.Obj.Contract)
	if err != nil {
		return false // the infrastructure phase has told
	}
	yes, _, err := c.Interruptible.Get(s.infraMachine.Obj.Unstructured)
	return err == nil && yes
}
