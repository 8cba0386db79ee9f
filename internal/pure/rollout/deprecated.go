// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"

	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/scaling"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

// ReportDeprecated fills the v1beta1 status of a MachineDeployment, which aggregates its
// MachineSets. The values of the MachineSets are computed here from their Machines; to
// wait until they report them would be one more write for each change.
func ReportDeprecated(s Status) {
	md := s.Deployment
	st := ptr.Deref(ptr.Deref(md.Status.Deprecated, clusterv1.MachineDeploymentDeprecatedStatus{}).V1Beta1, clusterv1.MachineDeploymentV1Beta1DeprecatedStatus{})
	const t, ofSet = clusterv1.MachineDeploymentAvailableV1Beta1Condition, clusterv1.MachineSetReadyV1Beta1Condition
	setReady := v1beta1conditions.False(ofSet, clusterv1.ConditionSeverityInfo, clusterv1.WaitingForMachineSetFallbackV1Beta1Reason, "")
	current := Current(Facts{Deployment: md, Now: s.Now}, s.Sets, func(set *clusterv1.MachineSet) *clusterv1.MachineSet { return set })
	st.UpdatedReplicas, st.ReadyReplicas, st.AvailableReplicas = 0, 0, 0
	for _, set := range s.Sets {
		is := scaling.DeprecatedNow(set, s.BySet[set.UID], s.Now)
		st.ReadyReplicas += is.ReadyReplicas
		st.AvailableReplicas += is.AvailableReplicas
		if set == current {
			st.UpdatedReplicas = int32(len(s.BySet[set.UID]))
			setReady = *v1beta1conditions.Get(is.Conditions, clusterv1.ReadyV1Beta1Condition)
			setReady.Type = ofSet
		}
	}
	st.UnavailableReplicas = max(0, int32(len(s.Machines))-st.AvailableReplicas)

	available := v1beta1conditions.True(t)
	_, unavailable := Pace(md, s.want())
	if required := max(0, s.want()-unavailable); int(st.AvailableReplicas) < required {
		available = v1beta1conditions.False(t, clusterv1.ConditionSeverityWarning, clusterv1.WaitingForAvailableMachinesV1Beta1Reason,
			fmt.Sprintf("Minimum availability requires %d replicas, current %d available", required, st.AvailableReplicas))
	}
	st.Conditions = v1beta1conditions.Set(st.Conditions, s.Now, available, setReady)
	st.Conditions = v1beta1conditions.Set(st.Conditions, s.Now, v1beta1conditions.Ready(st.Conditions, 0, t))
	md.Status.Deprecated = &clusterv1.MachineDeploymentDeprecatedStatus{V1Beta1: &st}
}
