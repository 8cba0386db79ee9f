// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// prepare sets what every set has in addition to its finalizer, before the phases,
// and reports whether that must be stored first. A set that a MachineDeployment
// created has all of it at creation.
func (r *Reconciler) prepare(s *state) bool {
	set := s.set
	if s.cluster == nil || !set.DeletionTimestamp.IsZero() {
		return false
	}
	changed := owner.Label(set, set.Spec.ClusterName)
	if standalone(set) {
		changed = owner.Set(set, owner.OfCluster(s.cluster)) || changed
	}
	return changed
}

// standalone reports whether the set was not created by a MachineDeployment. The
// label counts too, since owner references can be lost.
func standalone(set *clusterv1.MachineSet) bool {
	_, made := set.Labels[clusterv1.MachineDeploymentNameLabel]
	return metav1.GetControllerOfNoCopy(set) == nil && !made
}

// adopt adopts Machines that match and have no controller, and makes the Cluster
// the owner of the templates of a standalone set, so that they are moved and
// deleted with it. Templates of other sets belong to their MachineDeployment.
func (r *Reconciler) adopt(ctx context.Context, s *state) (reconciler.Next, error) {
	mine, err := owner.Controller(s.set, r.Mgmt)
	if err != nil {
		return reconciler.Continue(), err
	}
	errs := []error{owner.HealAll(ctx, r.Mgmt, s.machines, mine)}
	s.orphans = slices.DeleteFunc(s.orphans, func(m *clusterv1.Machine) bool {
		commit := patch.Snapshot(r.Mgmt, m)
		owner.Set(m, mine)
		if err := commit(ctx); err != nil {
			errs = append(errs, fmt.Errorf("adopt: %w", err))
			return false
		}
		s.machines = append(s.machines, m)
		return true
	})
	if !standalone(s.set) {
		return reconciler.Continue(), errors.Join(errs...)
	}
	spec := s.set.Spec.Template.Spec
	errs = append(errs,
		r.adoptTemplate(ctx, s, spec.Bootstrap.ConfigRef, reference.Bootstrap),
		r.adoptTemplate(ctx, s, spec.InfrastructureRef, reference.MachineInfrastructure))
	return reconciler.Continue(), errors.Join(errs...)
}

func (r *Reconciler) adoptTemplate(ctx context.Context, s *state, ref clusterv1.ContractVersionedObjectReference, role reference.Role) error {
	if !ref.IsDefined() {
		return nil
	}
	t, err := r.Providers.Template(ctx, s.cluster, ref, role)
	switch {
	case apierrors.IsNotFound(err), provider.Refused(err):
		return nil // scale reports it, if the template is needed
	case err != nil:
		return err
	}
	return r.Providers.Adopt(ctx, t, provider.Adoption{Claim: reference.ToShare(s.cluster)})
}
