// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/machinestatus"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

// ReportDeprecated fills the v1beta1 status of a MachineSet. Its counters depend only on the
// Nodes. It is resized once the Nodes of all Machines are ready; a later failure of a
// Node does not change that.
func ReportDeprecated(s Status) {
	s.Set.Status.Deprecated = &clusterv1.MachineSetDeprecatedStatus{V1Beta1: new(s.deprecated(s.machinesCreated()))}
}

// DeprecatedNow is the next v1beta1 status of a MachineSet with those Machines. Only its own
// controller can determine whether all could be created.
func DeprecatedNow(set *clusterv1.MachineSet, machines []*clusterv1.Machine, now time.Time) clusterv1.MachineSetV1Beta1DeprecatedStatus {
	created := v1beta1conditions.Get(deprecatedOf(set).Conditions, clusterv1.MachinesCreatedV1Beta1Condition)
	return Status{Set: set, Machines: machines, Now: now}.deprecated(ptr.Deref(created, v1beta1conditions.True(clusterv1.MachinesCreatedV1Beta1Condition)))
}

func deprecatedOf(set *clusterv1.MachineSet) clusterv1.MachineSetV1Beta1DeprecatedStatus {
	return ptr.Deref(ptr.Deref(set.Status.Deprecated, clusterv1.MachineSetDeprecatedStatus{}).V1Beta1, clusterv1.MachineSetV1Beta1DeprecatedStatus{})
}

func (s Status) deprecated(created clusterv1.Condition) clusterv1.MachineSetV1Beta1DeprecatedStatus {
	st := deprecatedOf(s.Set)
	st.FullyLabeledReplicas = 0
	for _, m := range s.Machines {
		if has(m.Labels, s.Set.Spec.Template.Labels) {
			st.FullyLabeledReplicas++
		}
	}
	st.ReadyReplicas, st.AvailableReplicas = machinestatus.CountNodes(s.Machines, s.Set.Spec.Template.Spec.MinReadySeconds, s.Now)
	st.Conditions = v1beta1conditions.Set(st.Conditions, s.Now, created, s.resized(st),
		v1beta1conditions.AggregateMachines(clusterv1.MachinesReadyV1Beta1Condition, s.Machines))
	st.Conditions = v1beta1conditions.Set(st.Conditions, s.Now, v1beta1conditions.Ready(st.Conditions, 0,
		clusterv1.MachinesCreatedV1Beta1Condition, clusterv1.ResizedV1Beta1Condition, clusterv1.MachinesReadyV1Beta1Condition))
	return st
}

// has reports whether labels contain all of some others.
func has(labels, all map[string]string) bool {
	for key, value := range all {
		if got, ok := labels[key]; !ok || got != value {
			return false
		}
	}
	return true
}

func (s Status) machinesCreated() clusterv1.Condition {
	const t, severity = clusterv1.MachinesCreatedV1Beta1Condition, clusterv1.ConditionSeverityError
	switch {
	case s.NotCreated.Reason != "":
		return v1beta1conditions.False(t, severity, s.NotCreated.Reason, s.NotCreated.Message)
	case len(s.Blocked) > 0 && len(s.Machines) < s.group().Want():
		return v1beta1conditions.False(t, severity, clusterv1.PreflightCheckFailedV1Beta1Reason, strings.Join(s.Blocked, "; "))
	}
	return v1beta1conditions.True(t)
}

// resized reports whether the number of Machines is the desired one. For a set that is
// being deleted, upstream reports that it scales up.
func (s Status) resized(st clusterv1.MachineSetV1Beta1DeprecatedStatus) clusterv1.Condition {
	const t, severity = clusterv1.ResizedV1Beta1Condition, clusterv1.ConditionSeverityWarning
	have, want := len(s.Machines), s.group().Want()
	joining := slices.ContainsFunc(s.Machines, func(m *clusterv1.Machine) bool { return !m.Status.NodeRef.IsDefined() })
	switch was := v1beta1conditions.Get(st.Conditions, t); {
	case !s.Set.DeletionTimestamp.IsZero():
		return v1beta1conditions.False(t, clusterv1.ConditionSeverityInfo, clusterv1.DeletingV1Beta1Reason, "")
	case have > want:
		return v1beta1conditions.False(t, severity, clusterv1.ScalingDownV1Beta1Reason, fmt.Sprintf("Scaling down MachineSet to %d replicas (actual %d)", want, have))
	case have == want && int(st.ReadyReplicas) == have:
		return v1beta1conditions.True(t)
	case have < want, joining, was == nil:
		return v1beta1conditions.False(t, severity, clusterv1.ScalingUpV1Beta1Reason, fmt.Sprintf("Scaling up MachineSet to %d replicas (actual %d)", want, have))
	default:
		return *was
	}
}
