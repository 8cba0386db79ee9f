// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/metadata"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/phase"
	"github.com/capstan-dev/capstan/internal/pure/claim"
	"github.com/capstan-dev/capstan/internal/pure/fieldrules"
)

// nodeDeletionSeconds is what admission fills in where a Machine says nothing;
// to write anything else would only be undone.
const nodeDeletionSeconds = 10

// synchronise brings what may change in place from the set to its Machines, and
// labels and annotations on to their bootstrap and infrastructure objects.
func (r *Reconciler) synchronise(ctx context.Context, s *state) (phase.Next, error) {
	want := &clusterv1.Machine{}
	want.Labels, want.Annotations = machineLabels(s.set), s.set.Spec.Template.Annotations
	setInPlaceFields(want, s.set)
	return phase.Continue(), inBatches(s.machines, func(m *clusterv1.Machine) error {
		if synchronised(m, want) {
			return nil
		}
		if err := r.synchroniseMachine(ctx, s, m); err != nil {
			return fmt.Errorf("Machine %s: %w", m.Name, err)
		}
		return nil
	})
}

// synchronised reports whether there is nothing to write. It is what nearly
// every Machine is asked at nearly every time, so it copies and decodes nothing.
func synchronised(m, want *clusterv1.Machine) bool {
	same := equality.Semantic.DeepEqual
	if !m.DeletionTimestamp.IsZero() {
		return same(m.Spec.Deletion, want.Spec.Deletion)
	}
	return maps.Equal(m.Labels, want.Labels) && maps.Equal(m.Annotations, want.Annotations) &&
		same(m.Spec.Deletion, want.Spec.Deletion) && same(m.Spec.MinReadySeconds, want.Spec.MinReadySeconds) &&
		same(m.Spec.ReadinessGates, want.Spec.ReadinessGates) && same(m.Spec.Taints, want.Spec.Taints)
}

// synchroniseMachine looks at the other objects only if the labels or
// annotations of the Machine differ from what they shall be, and writes the
// Machine last: as long as it differs, an interrupted attempt is made again.
func (r *Reconciler) synchroniseMachine(ctx context.Context, s *state, m *clusterv1.Machine) error {
	commit := patch.Remember(r.Mgmt, m, patch.As(fieldOwner))
	if !m.DeletionTimestamp.IsZero() {
		m.Spec.Deletion = deletionOf(s.set) // what else could still matter
		return commit(ctx)
	}
	had := metadata.Want{Labels: m.Labels, Annotations: m.Annotations}
	want := metadata.Want{Labels: machineLabels(s.set), Annotations: s.set.Spec.Template.Annotations}
	changed, err := metadata.Sync(m, fieldOwner, want)
	if err != nil {
		return err
	}
	if changed {
		for _, ref := range []clusterv1.ContractVersionedObjectReference{m.Spec.Bootstrap.ConfigRef, m.Spec.InfrastructureRef} {
			if err := r.synchroniseObject(ctx, m, ref, had, want); err != nil {
				return err
			}
		}
	}
	setInPlaceFields(m, s.set)
	return commit(ctx)
}

// synchroniseObject brings labels and annotations to a bootstrap or
// infrastructure object.
func (r *Reconciler) synchroniseObject(ctx context.Context, m *clusterv1.Machine, ref clusterv1.ContractVersionedObjectReference, had, want metadata.Want) error {
	if !ref.IsDefined() {
		return nil
	}
	obj, err := r.Providers.Get(ctx, m.Namespace, ref)
	if err != nil {
		return client.IgnoreNotFound(err) // the Machine tells
	}
	if !obj.GetDeletionTimestamp().IsZero() || claim.ByMachine(m).Judge(obj).Holder != "" {
		return nil
	}
	commit := patch.Remember(r.Mgmt, obj.Unstructured, patch.As(fieldOwner))
	metadata.Pass(obj, m, had, want)
	return commit(ctx)
}

// setInPlaceFields sets the fields of a Machine that may change without a new
// Machine being needed.
func setInPlaceFields(m *clusterv1.Machine, set *clusterv1.MachineSet) {
	t := set.Spec.Template.Spec.DeepCopy()
	m.Spec.ReadinessGates = t.ReadinessGates
	m.Spec.MinReadySeconds = t.MinReadySeconds
	m.Spec.Taints = t.Taints
	m.Spec.Deletion = deletionOf(set)
}

func deletionOf(set *clusterv1.MachineSet) clusterv1.MachineDeletionSpec {
	d := *set.Spec.Template.Spec.Deletion.DeepCopy()
	if d.NodeDeletionTimeoutSeconds == nil {
		d.NodeDeletionTimeoutSeconds = new(int32(nodeDeletionSeconds))
	}
	return d
}

// machineLabels are the labels of the Machines of a set, and of all that is
// made for them.
func machineLabels(set *clusterv1.MachineSet) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, set.Spec.Template.Labels)
	labels[clusterv1.ClusterNameLabel] = set.Spec.ClusterName
	labels[clusterv1.MachineSetNameLabel] = fieldrules.AsLabelValue(set.Name)
	if md, ok := set.Labels[clusterv1.MachineDeploymentNameLabel]; ok {
		labels[clusterv1.MachineDeploymentNameLabel] = md
	}
	return labels
}
