// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/pause"
	"github.com/capstan-dev/capstan/internal/pure/rollout"
	"github.com/capstan-dev/capstan/internal/pure/scaling"
)

// report fills the status from the state. It is pure. failed is what the
// reconcile ended with.
func report(s *state, failed error) {
	st := &s.deployment.Status
	n := scaling.Count(s.machines)
	st.Replicas, st.ReadyReplicas, st.AvailableReplicas, st.UpToDateReplicas = &n.Replicas, &n.Ready, &n.Available, &n.UpToDate
	st.Versions = n.Versions
	st.Selector = s.selector.String()
	st.SetTypedPhase(phaseOf(s, n))
	if failed == nil {
		st.ObservedGeneration = s.deployment.Generation
	}
	for _, c := range []metav1.Condition{
		available(s, n), machinesReady(s), machinesUpToDate(s),
		rollingOut(s), scalingUp(s), scalingDown(s), remediating(s), deleting(s),
		pause.Condition(s.cluster, s.deployment),
	} {
		c.ObservedGeneration = s.deployment.Generation
		conditions.Set(s.deployment, s.now, c)
	}
}

func phaseOf(s *state, n scaling.Counters) clusterv1.MachineDeploymentPhase {
	want := int32(s.want())
	if !s.deployment.DeletionTimestamp.IsZero() {
		want = 0
	}
	switch {
	case n.Replicas > want:
		return clusterv1.MachineDeploymentPhaseScalingDown
	case n.Ready < want:
		return clusterv1.MachineDeploymentPhaseScalingUp
	}
	return clusterv1.MachineDeploymentPhaseRunning
}

func available(s *state, n scaling.Counters) metav1.Condition {
	c := metav1.Condition{Type: clusterv1.MachineDeploymentAvailableCondition}
	if s.deployment.Spec.Replicas == nil {
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, clusterv1.MachineDeploymentAvailableWaitingForReplicasSetReason, "Waiting for spec.replicas to be set"
		return c
	}
	_, unavailable := rollout.Pace(s.deployment, s.want())
	required := max(0, s.want()-unavailable)
	if int(n.Available) >= required {
		c.Status, c.Reason = metav1.ConditionTrue, clusterv1.MachineDeploymentAvailableReason
		return c
	}
	c.Status, c.Reason = metav1.ConditionFalse, clusterv1.MachineDeploymentNotAvailableReason
	c.Message = fmt.Sprintf("%d available replicas, at least %d required (spec.replicas is %d, %d may be unavailable)", n.Available, required, s.want(), unavailable)
	if !s.deployment.DeletionTimestamp.IsZero() {
		c.Message = "Deletion in progress"
	}
	return c
}

func machinesReady(s *state) metav1.Condition {
	return conditions.Aggregate(conditions.Objects("Machine", s.machines...), clusterv1.MachineReadyCondition, clusterv1.MachineDeploymentMachinesReadyCondition, conditions.AggregateOptions{
		Reasons: conditions.Reasons{
			Issue:   clusterv1.MachineDeploymentMachinesNotReadyReason,
			Unknown: clusterv1.MachineDeploymentMachinesReadyUnknownReason,
			Info:    clusterv1.MachineDeploymentMachinesReadyReason,
		},
		Empty: metav1.Condition{Status: metav1.ConditionTrue, Reason: clusterv1.MachineDeploymentMachinesReadyNoReplicasReason},
	})
}

// machinesUpToDate looks only at Machines that have been judged: a new one is
// judged in a moment.
func machinesUpToDate(s *state) metav1.Condition {
	judged := with(s.machines, func(m *clusterv1.Machine) bool { return conditions.Has(m, clusterv1.MachineUpToDateCondition) })
	return conditions.Aggregate(conditions.Objects("Machine", judged...), clusterv1.MachineUpToDateCondition, clusterv1.MachineDeploymentMachinesUpToDateCondition, conditions.AggregateOptions{
		Reasons: conditions.Reasons{
			Issue:   clusterv1.MachineDeploymentMachinesNotUpToDateReason,
			Unknown: clusterv1.MachineDeploymentMachinesUpToDateUnknownReason,
			Info:    clusterv1.MachineDeploymentMachinesUpToDateReason,
		},
		Empty: metav1.Condition{Status: metav1.ConditionTrue, Reason: clusterv1.MachineDeploymentMachinesUpToDateNoReplicasReason},
	})
}

func rollingOut(s *state) metav1.Condition {
	c := metav1.Condition{Type: clusterv1.MachineDeploymentRollingOutCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineDeploymentNotRollingOutReason}
	behind := with(s.machines, func(m *clusterv1.Machine) bool { return conditions.IsFalse(m, clusterv1.MachineUpToDateCondition) })
	if len(behind) == 0 {
		return c
	}
	c.Status, c.Reason = metav1.ConditionTrue, clusterv1.MachineDeploymentRollingOutReason
	lines := []string{fmt.Sprintf("Rolling out %d not up-to-date replicas", len(behind))}
	for _, m := range behind {
		for why := range strings.Lines(conditions.Message(m, clusterv1.MachineUpToDateCondition)) {
			why = "* " + strings.TrimPrefix(strings.TrimSpace(why), "* ")
			if !slices.Contains(lines, why) {
				lines = append(lines, why)
			}
		}
	}
	slices.Sort(lines[1:])
	c.Message = strings.Join(lines, "\n")
	return c
}

func scalingUp(s *state) metav1.Condition {
	c := metav1.Condition{Type: clusterv1.MachineDeploymentScalingUpCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineDeploymentNotScalingUpReason}
	have, want := len(s.machines), s.want()
	switch {
	case !s.deployment.DeletionTimestamp.IsZero():
	case s.deployment.Spec.Replicas == nil:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, clusterv1.MachineDeploymentScalingUpWaitingForReplicasSetReason, "Waiting for spec.replicas to be set"
	case have < want:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, clusterv1.MachineDeploymentScalingUpReason, fmt.Sprintf("Scaling up from %d to %d replicas", have, want)
		if s.cluster == nil {
			c.Message += fmt.Sprintf(" is blocked because:\n* Cluster %s, named by spec.clusterName, does not exist", s.deployment.Spec.ClusterName)
		}
		if blocked := blockedSets(s); blocked != "" {
			c.Message += "\n" + blocked
		}
	}
	return c
}

// blockedSets says what the MachineSets say of what keeps them from growing.
func blockedSets(s *state) string {
	growing := slices.DeleteFunc(slices.Clone(s.sets), func(set *clusterv1.MachineSet) bool {
		return !conditions.IsTrue(set, clusterv1.MachineSetScalingUpCondition)
	})
	if len(growing) == 0 {
		return ""
	}
	return conditions.Aggregate(conditions.Objects("MachineSet", growing...), clusterv1.MachineSetScalingUpCondition, "", conditions.AggregateOptions{Negative: true}).Message
}

func scalingDown(s *state) metav1.Condition {
	c := metav1.Condition{Type: clusterv1.MachineDeploymentScalingDownCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineDeploymentNotScalingDownReason}
	have, want := len(s.machines), s.want()
	if !s.deployment.DeletionTimestamp.IsZero() {
		want = 0
	}
	switch {
	case s.deployment.Spec.Replicas == nil && s.deployment.DeletionTimestamp.IsZero():
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, clusterv1.MachineDeploymentScalingDownWaitingForReplicasSetReason, "Waiting for spec.replicas to be set"
	case have > want:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, clusterv1.MachineDeploymentScalingDownReason, fmt.Sprintf("Scaling down from %d to %d replicas", have, want)
	}
	return c
}

func remediating(s *state) metav1.Condition {
	sick := with(s.machines, func(m *clusterv1.Machine) bool {
		return conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition)
	})
	if len(sick) == 0 {
		return metav1.Condition{Type: clusterv1.MachineDeploymentRemediatingCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineDeploymentNotRemediatingReason}
	}
	c := conditions.Aggregate(conditions.Objects("Machine", sick...), clusterv1.MachineOwnerRemediatedCondition, clusterv1.MachineDeploymentRemediatingCondition, conditions.AggregateOptions{})
	c.Status, c.Reason = metav1.ConditionTrue, clusterv1.MachineDeploymentRemediatingReason
	return c
}

func deleting(s *state) metav1.Condition {
	c := metav1.Condition{Type: clusterv1.MachineDeploymentDeletingCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineDeploymentNotDeletingReason}
	if s.deployment.DeletionTimestamp.IsZero() {
		return c
	}
	c.Status, c.Reason, c.Message = metav1.ConditionTrue, clusterv1.MachineDeploymentDeletingReason, "Deletion completed"
	if len(s.sets) > 0 {
		var names []string
		for _, set := range s.sets {
			names = append(names, set.Name)
		}
		slices.Sort(names)
		c.Message = "Waiting for MachineSets to be deleted: " + conditions.Names(names)
		if n := len(s.machines); n > 0 {
			c.Message += fmt.Sprintf(", with %d Machines", n)
		}
	}
	return c
}

func with(machines []*clusterv1.Machine, is func(*clusterv1.Machine) bool) []*clusterv1.Machine {
	return slices.DeleteFunc(slices.Clone(machines), func(m *clusterv1.Machine) bool { return !is(m) })
}
