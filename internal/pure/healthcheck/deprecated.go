// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"time"

	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

// deprecatedReasons are the reasons of v1beta1 conditions by current reasons, if they
// differ.
var deprecatedReasons = map[string]string{
	clusterv1.MachineHealthCheckHasRemediateAnnotationReason:    clusterv1.HasRemediateMachineAnnotationV1Beta1Reason,
	clusterv1.MachineHealthCheckNodeDeletedReason:               clusterv1.NodeNotFoundV1Beta1Reason,
	clusterv1.MachineSetMachineRemediationMachineDeletingReason: clusterv1.RemediationInProgressV1Beta1Reason,
	clusterv1.MachineSetMachineRemediationDeferredReason:        clusterv1.WaitingForRemediationV1Beta1Reason,
	clusterv1.MachineSetMachineCannotBeRemediatedReason:         clusterv1.RemediationFailedV1Beta1Reason,
	clusterv1.InternalErrorReason:                               clusterv1.RemediationFailedV1Beta1Reason,
}

// Deprecated returns the v1beta1 conditions for the health of a Machine, and for its
// replacement by the owner. No controller acts on them: they follow the current
// conditions, and are deleted with them.
func Deprecated(m *clusterv1.Machine) []clusterv1.Condition {
	const warning = clusterv1.ConditionSeverityWarning
	found := v1beta1conditions.From(conditions.Get(m, succeeded), clusterv1.MachineHealthCheckSucceededV1Beta1Condition, warning, deprecatedReasons)
	remediated := v1beta1conditions.From(conditions.Get(m, byOwner), clusterv1.MachineOwnerRemediatedV1Beta1Condition, warning, deprecatedReasons)
	if remediated.Reason == clusterv1.RemediationFailedV1Beta1Reason {
		remediated.Severity = clusterv1.ConditionSeverityError
	}
	return []clusterv1.Condition{found, remediated}
}

// ReportDeprecated fills the v1beta1 status of a MachineHealthCheck, after its own
// condition.
func ReportDeprecated(check *clusterv1.MachineHealthCheck, now time.Time) {
	st := ptr.Deref(ptr.Deref(check.Status.Deprecated, clusterv1.MachineHealthCheckDeprecatedStatus{}).V1Beta1, clusterv1.MachineHealthCheckV1Beta1DeprecatedStatus{})
	st.Conditions = v1beta1conditions.Set(st.Conditions, now, v1beta1conditions.From(
		conditions.Get(check, clusterv1.MachineHealthCheckRemediationAllowedCondition),
		clusterv1.RemediationAllowedV1Beta1Condition, clusterv1.ConditionSeverityWarning, nil))
	check.Status.Deprecated = &clusterv1.MachineHealthCheckDeprecatedStatus{V1Beta1: &st}
}
