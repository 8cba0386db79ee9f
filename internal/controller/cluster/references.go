// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/clusterstatus"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// infrastructure adopts the infrastructure object and copies its reported fields.
func (r *Reconciler) infrastructure(ctx context.Context, s *state) (reconciler.Next, error) {
	if !s.infra.Ref.IsDefined() {
		clusterstatus.WithoutInfrastructure(s.cluster)
		return reconciler.Continue(), nil
	}
	if done, err := r.takeOver(ctx, s, &s.infra, s.cluster.Status.Initialization.InfrastructureProvisioned); done || err != nil {
		return reconciler.Continue(), err
	}
	news, err := clusterstatus.TakeInfrastructure(s.cluster, s.infra.Obj.Unstructured, s.infra.Obj.Contract)
	if news {
		ctrl.LoggerFrom(ctx).Info("Infrastructure is provisioned", s.infra.Ref.Kind, s.infra.Ref.Name)
		r.event(s, "InfrastructureReady", "Provision", "%s is provisioned", s.infra)
	}
	return reconciler.Continue(), s.infra.Failed(err)
}

// controlPlane adopts the control plane object and records when it is initialized.
// Without one, the control plane Machines determine that.
func (r *Reconciler) controlPlane(ctx context.Context, s *state) (reconciler.Next, error) {
	if !s.controlPlane.Ref.IsDefined() {
		clusterstatus.WithoutControlPlane(s.cluster, s.members.ControlPlaneMachines)
		return reconciler.Continue(), nil
	}
	if done, err := r.takeOver(ctx, s, &s.controlPlane, s.cluster.Status.Initialization.ControlPlaneInitialized); done || err != nil {
		return reconciler.Continue(), err
	}
	obj := s.controlPlane.Obj
	var uncounted error
	s.replicas, s.versions, uncounted = clusterstatus.ReadControlPlane(obj.Unstructured, obj.Contract)
	news, err := clusterstatus.TakeControlPlane(s.cluster, obj.Unstructured, obj.Contract)
	if news {
		ctrl.LoggerFrom(ctx).Info("Control plane is initialized", s.controlPlane.Ref.Kind, s.controlPlane.Ref.Name)
		// No event: the condition ControlPlaneInitialized reports it, and since
		// when.
	}
	return reconciler.Continue(), s.controlPlane.Failed(errors.Join(uncounted, err))
}

// takeOver reads the object behind a reference and sets owner and label. done means
// that there is nothing to read from it, or that it has another owner.
func (r *Reconciler) takeOver(ctx context.Context, s *state, ref *provider.Reference, before *bool) (done bool, err error) {
	if err := r.look(ctx, s, ref); err != nil {
		return true, err
	}
	if ref.Missing {
		if ptr.Deref(before, false) {
			return true, reconcile.TerminalError(fmt.Errorf("%s: %s %s/%s has been deleted while the Cluster still exists: delete the Cluster, or restore the object from a backup", ref.Field, ref.Ref.Kind, s.cluster.Namespace, ref.Ref.Name))
		}
		return true, nil // its creation triggers a reconcile
	}
	err = r.Providers.Take(ctx, ref, provider.Adoption{Claim: reference.ByCluster(s.cluster)})
	return ref.Held() || err != nil, err
}
