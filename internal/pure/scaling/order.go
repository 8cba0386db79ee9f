// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"cmp"
	"slices"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

// inOrder returns the Machines in order of deletion.
func inOrder(machines []*clusterv1.Machine, order clusterv1.MachineSetDeletionOrder) []*clusterv1.Machine {
	sorted := slices.Clone(machines)
	slices.SortFunc(sorted, func(a, b *clusterv1.Machine) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), byAge(a, b, order), cmp.Compare(a.Name, b.Name))
	})
	return sorted
}

// Ranks of Machines; the lowest is deleted first.
const (
	deleting = iota
	marked
	updating
	unhealthy
	healthy
)

func rank(m *clusterv1.Machine) int {
	_, isMarked := m.Annotations[clusterv1.DeleteMachineAnnotation]
	_, isUpdating := m.Annotations[clusterv1.UpdateInProgressAnnotation]
	switch {
	case !m.DeletionTimestamp.IsZero():
		return deleting
	case isMarked:
		return marked
	case isUpdating:
		return updating
	case Failing(m):
		return unhealthy
	default:
		return healthy
	}
}

// Failing reports whether a Machine is one of those that are deleted before the healthy
// ones: it has no Node yet, or its last report is unhealthy. A Machine without a report
// does not count as unhealthy.
func Failing(m *clusterv1.Machine) bool {
	return !m.Status.NodeRef.IsDefined() || conditions.IsFalse(m, clusterv1.MachineNodeHealthyCondition) || conditions.IsFalse(m, clusterv1.MachineHealthCheckSucceededCondition)
}

// byAge orders healthy Machines. Without an order their names decide, which are random.
func byAge(a, b *clusterv1.Machine, order clusterv1.MachineSetDeletionOrder) int {
	switch {
	case rank(a) != healthy:
		return 0
	case order == clusterv1.OldestMachineSetDeletionOrder:
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	case order == clusterv1.NewestMachineSetDeletionOrder:
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	}
	return 0
}
