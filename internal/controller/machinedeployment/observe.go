// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/kit/owner"
)

// state has what one reconcile has read. observe and the phases fill it; report
// reads nothing else.
type state struct {
	deployment *clusterv1.MachineDeployment
	cluster    *clusterv1.Cluster // nil: not found
	selector   labels.Selector
	sets       []*clusterv1.MachineSet // of the deployment, those being deleted included
	orphans    []*clusterv1.MachineSet // that match and have no controller
	machines   []*clusterv1.Machine    // of all sets
	bySet      map[types.UID][]*clusterv1.Machine
	now        time.Time

	// blocked is why no Machine can be created from the templates. Phase "own the
	// templates" sets it.
	blocked    []string
	quietUntil time.Time // missing objects may be created by then, and are not reported before; zero if none is missing, or reported
	unusable   error     // why the kind of a template cannot be used, of which no watch reports a change
}

// templates returns the references by which a deployment is found again when one of
// its templates appears.
func templates(obj client.Object) []clusterv1.ContractVersionedObjectReference {
	spec := obj.(*clusterv1.MachineDeployment).Spec.Template.Spec
	return []clusterv1.ContractVersionedObjectReference{spec.Bootstrap.ConfigRef, spec.InfrastructureRef}
}

// observe reads from the management cluster's cache.
func (r *Reconciler) observe(ctx context.Context, md *clusterv1.MachineDeployment) (*state, error) {
	s := &state{deployment: md, now: r.Clock.Now(), bySet: map[types.UID][]*clusterv1.Machine{}}
	var err error
	if s.cluster, err = owner.ClusterByName(ctx, r.Mgmt, md.Namespace, md.Spec.ClusterName); err != nil {
		return nil, err
	}
	if s.cluster == nil && md.DeletionTimestamp.IsZero() {
		s.keepQuiet()
	}
	if s.selector, err = owner.Selector(&md.Spec.Selector); err != nil {
		return nil, err
	}
	in := []client.ListOption{
		client.InNamespace(md.Namespace),
		client.MatchingFields{index.ClusterName: md.Spec.ClusterName},
	}
	var sets clusterv1.MachineSetList
	if err := r.Mgmt.List(ctx, &sets, in...); err != nil {
		return nil, fmt.Errorf("list MachineSets: %w", err)
	}
	// A set that lost a label of the selector still belongs to the deployment, which
	// restores the label: otherwise it would create the Machines a second time.
	s.sets, s.orphans = owner.Divide(sets.Items, md.UID)
	s.orphans = slices.DeleteFunc(s.orphans, func(set *clusterv1.MachineSet) bool { return !s.selector.Matches(labels.Set(set.Labels)) })
	return s, r.observeMachines(ctx, s, append(in, client.MatchingLabelsSelector{Selector: s.selector}))
}

// observeMachines reads the Machines of all sets; the set controller writes them.
func (r *Reconciler) observeMachines(ctx context.Context, s *state, in []client.ListOption) error {
	var list clusterv1.MachineList
	if err := r.Mgmt.List(ctx, &list, append(in, client.UnsafeDisableDeepCopy)...); err != nil {
		return fmt.Errorf("list Machines: %w", err)
	}
	mine := map[types.UID]bool{}
	for _, set := range s.sets {
		mine[set.UID] = true
	}
	for i := range list.Items {
		m := &list.Items[i]
		if ref := metav1.GetControllerOfNoCopy(m); ref != nil && mine[ref.UID] {
			s.machines = append(s.machines, m)
			s.bySet[ref.UID] = append(s.bySet[ref.UID], m)
		}
	}
	return nil
}

// keepQuiet reports whether it is too early to report missing objects, and records
// until when.
func (s *state) keepQuiet() bool {
	if ends := s.deployment.CreationTimestamp.Add(grace); ends.After(s.now) {
		s.quietUntil = ends
	}
	return !s.quietUntil.IsZero()
}
