// SPDX-License-Identifier: Apache-2.0

package v1beta1conditions

import (
	"time"

	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// OfMachine is the v1beta1 status of a Machine. Several controllers set conditions in
// it.
func OfMachine(m *clusterv1.Machine) clusterv1.MachineV1Beta1DeprecatedStatus {
	return ptr.Deref(ptr.Deref(m.Status.Deprecated, clusterv1.MachineDeprecatedStatus{}).V1Beta1, clusterv1.MachineV1Beta1DeprecatedStatus{})
}

// SetMachine sets conditions of a Machine.
func SetMachine(m *clusterv1.Machine, now time.Time, all ...clusterv1.Condition) {
	st := OfMachine(m)
	if st.Conditions = Set(st.Conditions, now, all...); len(st.Conditions) == 0 && m.Status.Deprecated == nil {
		return // nothing to set
	}
	m.Status.Deprecated = &clusterv1.MachineDeprecatedStatus{V1Beta1: &st}
}

// AggregateMachines is the Aggregate of Machines.
func AggregateMachines(t clusterv1.ConditionType, machines []*clusterv1.Machine) clusterv1.Condition {
	children := make([]Child, 0, len(machines))
	for _, m := range machines {
		children = append(children, Child{m.Name, OfMachine(m).Conditions})
	}
	return Aggregate(t, "Machine", children)
}
