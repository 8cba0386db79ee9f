// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/pause"
	"github.com/capstan-dev/capstan/internal/pure/scaling"
)

// report fills the status from the state. It is pure. failed is what the
// reconcile ended with.
func report(s *state, failed error) {
	st := &s.set.Status
	n := scaling.Count(s.machines)
	st.Replicas, st.ReadyReplicas, st.AvailableReplicas, st.UpToDateReplicas = &n.Replicas, &n.Ready, &n.Available, &n.UpToDate
	st.Versions = n.Versions
	st.Selector = s.selector.String()
	if failed == nil {
		st.ObservedGeneration = s.set.Generation
	}
	for _, c := range []metav1.Condition{
		machinesReady(s), machinesUpToDate(s),
		scalingUp(s), scalingDown(s), remediating(s), deleting(s),
		pause.Condition(s.cluster, s.set),
	} {
		c.ObservedGeneration = s.set.Generation
		conditions.Set(s.set, s.now, c)
	}
}

func machinesReady(s *state) metav1.Condition {
	return conditions.Aggregate(conditions.Objects("Machine", s.machines...), clusterv1.MachineReadyCondition, clusterv1.MachineSetMachinesReadyCondition, conditions.AggregateOptions{
		Reasons: conditions.Reasons{
			Issue:   clusterv1.MachineSetMachinesNotReadyReason,
			Unknown: clusterv1.MachineSetMachinesReadyUnknownReason,
			Info:    clusterv1.MachineSetMachinesReadyReason,
		},
		Empty: metav1.Condition{Status: metav1.ConditionTrue, Reason: clusterv1.MachineSetMachinesReadyNoReplicasReason},
	})
}

// machinesUpToDate looks only at Machines that somebody has judged: those of a
// standalone set are neither up to date nor not.
func machinesUpToDate(s *state) metav1.Condition {
	judged := slices.DeleteFunc(slices.Clone(s.machines), func(m *clusterv1.Machine) bool {
		return !conditions.Has(m, clusterv1.MachineUpToDateCondition)
	})
	return conditions.Aggregate(conditions.Objects("Machine", judged...), clusterv1.MachineUpToDateCondition, clusterv1.MachineSetMachinesUpToDateCondition, conditions.AggregateOptions{
		Reasons: conditions.Reasons{
			Issue:   clusterv1.MachineSetMachinesNotUpToDateReason,
			Unknown: clusterv1.MachineSetMachinesUpToDateUnknownReason,
			Info:    clusterv1.MachineSetMachinesUpToDateReason,
		},
		Empty: metav1.Condition{Status: metav1.ConditionTrue, Reason: clusterv1.MachineSetMachinesUpToDateNoReplicasReason},
	})
}

func scalingUp(s *state) metav1.Condition {
	c := metav1.Condition{Type: clusterv1.MachineSetScalingUpCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineSetNotScalingUpReason}
	have, want := len(s.machines), s.want()
	switch {
	case s.set.Spec.Replicas == nil:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, clusterv1.MachineSetScalingUpWaitingForReplicasSetReason, "Waiting for spec.replicas to be set"
	case s.set.DeletionTimestamp.IsZero() && have < want:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, clusterv1.MachineSetScalingUpReason, fmt.Sprintf("Scaling up from %d to %d replicas", have, want)
		if len(s.blocked) > 0 {
			c.Message += " is blocked because:\n* " + strings.Join(s.blocked, "\n* ")
		}
	}
	return c
}

func scalingDown(s *state) metav1.Condition {
	c := metav1.Condition{Type: clusterv1.MachineSetScalingDownCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineSetNotScalingDownReason}
	have, want := len(s.machines), s.want()
	if !s.set.DeletionTimestamp.IsZero() {
		want = 0
	}
	switch {
	case s.set.Spec.Replicas == nil && s.set.DeletionTimestamp.IsZero():
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, clusterv1.MachineSetScalingDownWaitingForReplicasSetReason, "Waiting for spec.replicas to be set"
	case have > want:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, clusterv1.MachineSetScalingDownReason, fmt.Sprintf("Scaling down from %d to %d replicas", have, want)
	}
	return c
}

func remediating(s *state) metav1.Condition {
	sick := slices.DeleteFunc(slices.Clone(s.machines), func(m *clusterv1.Machine) bool {
		return !conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition)
	})
	if len(sick) == 0 {
		return metav1.Condition{Type: clusterv1.MachineSetRemediatingCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineSetNotRemediatingReason}
	}
	c := conditions.Aggregate(conditions.Objects("Machine", sick...), clusterv1.MachineOwnerRemediatedCondition, clusterv1.MachineSetRemediatingCondition, conditions.AggregateOptions{})
	c.Status, c.Reason = metav1.ConditionTrue, clusterv1.MachineSetRemediatingReason
	return c
}

func deleting(s *state) metav1.Condition {
	c := metav1.Condition{Type: clusterv1.MachineSetDeletingCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineSetNotDeletingReason}
	if s.set.DeletionTimestamp.IsZero() {
		return c
	}
	c.Status, c.Reason, c.Message = metav1.ConditionTrue, clusterv1.MachineSetDeletingReason, "Deletion completed"
	if len(s.machines) > 0 {
		var names []string
		for _, m := range s.machines {
			names = append(names, m.Name)
		}
		slices.Sort(names)
		c.Message = fmt.Sprintf("Waiting for %d Machines to be deleted: %s", len(names), conditions.Names(names))
	}
	return c
}
