// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Ready is the condition Ready that an object of any contract reports, as v1beta1
// has it; nil if it reports none, or one without a valid status. A condition that is
// False without a severity, as in the newer form, is Info.
func Ready(obj *unstructured.Unstructured) *clusterv1.Condition {
	all, _, _ := anyConditions.Get(obj)
	for _, raw := range all {
		c, _ := raw.(map[string]any)
		if text(c, "type") != ReadyCondition {
			continue
		}
		ready := &clusterv1.Condition{
			Type: ReadyCondition, Status: corev1.ConditionStatus(text(c, "status")),
			Reason: text(c, "reason"), Message: text(c, "message"),
		}
		switch ready.Status {
		case corev1.ConditionTrue, corev1.ConditionUnknown:
		case corev1.ConditionFalse:
			ready.Severity = severity(text(c, "severity"))
		default:
			return nil
		}
		if at, err := time.Parse(time.RFC3339, text(c, "lastTransitionTime")); err == nil {
			ready.LastTransitionTime = metav1.NewTime(at.UTC().Truncate(time.Second))
		}
		return ready
	}
	return nil
}

var anyConditions = At[[]any]("status.conditions")

func severity(reported string) clusterv1.ConditionSeverity {
	switch s := clusterv1.ConditionSeverity(reported); s {
	case clusterv1.ConditionSeverityError, clusterv1.ConditionSeverityWarning:
		return s
	}
	return clusterv1.ConditionSeverityInfo
}

func text(c map[string]any, key string) string {
	s, _ := c[key].(string)
	return s
}
