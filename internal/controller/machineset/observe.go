// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/pure/scaling"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

// state has what one reconcile has read. observe and the phases fill it; report
// reads nothing else.
type state struct {
	set        *clusterv1.MachineSet
	cluster    *clusterv1.Cluster           // nil: not found
	deployment *clusterv1.MachineDeployment // nil: the set is not of one
	selector   labels.Selector
	machines   []*clusterv1.Machine // of the set, those being deleted included
	orphans    []*clusterv1.Machine // that match and have no controller; once phase adopt has run, those that it could not adopt
	now        time.Time
	quietUntil time.Time // a missing Cluster may be created by then, and is not reported before; zero if it exists, or is reported

	bootstrapTemplate, infraTemplate *provider.Object // nil: not found, not needed, or not read

	// blocked is why no Machine can be created now. Phase preflight sets it, if a
	// Machine might have to be created.
	blocked    []string
	notCreated v1beta1conditions.Failure // why a Machine could not be created
}

// want is the desired number of Machines.
func (s *state) want() int {
	return scaling.Group{Machines: scaling.Counted(s.set, s.machines), Replicas: s.set.Spec.Replicas}.Want()
}

// unsettled reports whether the number of Machines differs from the desired one, or
// did when the set was last reported: only then may an earlier process have ended
// during a creation.
func (s *state) unsettled() bool {
	return len(s.machines) != s.want() || s.set.Status.ObservedGeneration != s.set.Generation
}

// observe reads from the management cluster's cache.
func (r *Reconciler) observe(ctx context.Context, set *clusterv1.MachineSet) (*state, error) {
	s := &state{set: set, now: r.Clock.Now()}
	var err error
	if s.cluster, err = owner.ClusterByName(ctx, r.Mgmt, set.Namespace, set.Spec.ClusterName); err != nil {
		return nil, err
	}
	if s.cluster == nil && set.DeletionTimestamp.IsZero() {
		s.blocked = scaling.Creation{Set: set}.RuledOut()
		if ends := set.CreationTimestamp.Add(clusterGrace); ends.After(s.now) {
			s.quietUntil = ends
		}
	}
	if s.selector, err = owner.Selector(&set.Spec.Selector); err != nil {
		return nil, err
	}
	if err := r.observeDeployment(ctx, s); err != nil {
		return nil, err
	}
	return s, r.observeMachines(ctx, s)
}

func (r *Reconciler) observeDeployment(ctx context.Context, s *state) error {
	ref := metav1.GetControllerOfNoCopy(s.set)
	if ref == nil || ref.Kind != "MachineDeployment" {
		return nil
	}
	md := &clusterv1.MachineDeployment{}
	key := client.ObjectKey{Namespace: s.set.Namespace, Name: ref.Name}
	switch err := r.Mgmt.Get(ctx, key, md); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("get MachineDeployment %s: %w", key, err)
	default:
		s.deployment = md
	}
	return nil
}

func (r *Reconciler) observeMachines(ctx context.Context, s *state) error {
	var list clusterv1.MachineList
	if err := r.Mgmt.List(ctx, &list, client.InNamespace(s.set.Namespace),
		client.MatchingFields{index.ClusterName: s.set.Spec.ClusterName}, client.MatchingLabelsSelector{Selector: s.selector}); err != nil {
		return fmt.Errorf("list Machines: %w", err)
	}
	s.machines, s.orphans = owner.Divide(list.Items, s.set.UID)
	return nil
}

// templates returns the references by which a set is found again when one of its
// templates appears.
func templates(obj client.Object) []clusterv1.ContractVersionedObjectReference {
	spec := obj.(*clusterv1.MachineSet).Spec.Template.Spec
	return []clusterv1.ContractVersionedObjectReference{spec.Bootstrap.ConfigRef, spec.InfrastructureRef}
}
