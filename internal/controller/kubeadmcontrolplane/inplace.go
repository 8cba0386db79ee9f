// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/phase"
	"github.com/capstan-dev/capstan/internal/pure/kubeadmcontrolplane"
)

var clusterKind = schema.GroupKind{Group: clusterv1.GroupVersion().Group, Kind: clusterv1.ClusterKind}

// adopt takes machines of the control plane that nobody controls, such as those
// that outlived an earlier KubeadmControlPlane. A mixture is refused: machines
// that somebody else made have other names for the same things.
func (r *Reconciler) adopt(ctx context.Context, s *state) (phase.Next, error) {
	if len(s.orphans) == 0 {
		return phase.Continue(), nil
	}
	if len(s.Machines) > 0 {
		names := make([]string, 0, len(s.orphans))
		for _, m := range s.orphans {
			names = append(names, m.Name)
		}
		return phase.Continue(), fmt.Errorf("control plane machines %v of the Cluster have no owner, yet others are owned by this control plane: delete them, or make this control plane their controller", names)
	}
	ref, err := owner.Controller(s.ControlPlane, r.Mgmt)
	if err != nil {
		return phase.Continue(), err
	}
	for _, m := range s.orphans {
		if !m.DeletionTimestamp.IsZero() {
			continue
		}
		commit := patch.Remember(r.Mgmt, m, patch.As(fieldOwner))
		owner.Set(m, ref)
		if err := commit(ctx); err != nil {
			return phase.Continue(), fmt.Errorf("adopt Machine %s: %w", m.Name, err)
		}
		ctrl.LoggerFrom(ctx).Info("Adopted Machine", "Machine", m.Name)
	}
	return phase.Wait(cacheLag), nil // they count from the next reconcile on
}

// synchronise brings what may change in place to the machines, and labels and
// annotations on to what they refer to. The machines are written with the rest,
// at the end.
func (r *Reconciler) synchronise(ctx context.Context, s *state) (phase.Next, error) {
	next := phase.Continue()
	var errs []error
	for _, m := range s.Machines {
		t := kubeadmcontrolplane.TemplateOf(s.ControlPlane, s.Cluster.Name, m.Machine)
		err := r.factory().Prepare(ctx, m.Machine, t)
		if _, unusable := errors.AsType[*provider.KindError](err); unusable {
			// The machine stays behind, and is tried again: CRDs are not watched.
			// It must not keep the others from being looked after.
			next = phase.LookAgain(repairInterval)
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("Machine %s: %w", m.Name, err))
		}
	}
	return next, errors.Join(errs...)
}
