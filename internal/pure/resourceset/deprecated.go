// SPDX-License-Identifier: Apache-2.0

package resourceset

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

// ReportDeprecated fills the v1beta1 status of a ClusterResourceSet: the condition from
// ResourcesApplied, with a severity, and a reason for the worst problem. A resource that
// is only not applied yet has severity Info.
func ReportDeprecated(s Status, now time.Time) {
	st := ptr.Deref(ptr.Deref(s.Set.Status.Deprecated, addonsv1.ClusterResourceSetDeprecatedStatus{}).V1Beta1, addonsv1.ClusterResourceSetV1Beta1DeprecatedStatus{})
	st.Conditions = v1beta1conditions.Set(st.Conditions, now, s.deprecated())
	s.Set.Status.Deprecated = &addonsv1.ClusterResourceSetDeprecatedStatus{V1Beta1: &st}
}

func (s Status) deprecated() clusterv1.Condition {
	const t = addonsv1.ResourcesAppliedV1Beta1Condition
	switch c := ResourcesApplied(s); c.Status {
	case metav1.ConditionTrue:
		return v1beta1conditions.True(t)
	case metav1.ConditionFalse:
		severity, reason := s.worst()
		return v1beta1conditions.False(t, severity, reason, c.Message)
	default:
		return v1beta1conditions.Unknown(t, addonsv1.RetrievingResourceFailedV1Beta1Reason, c.Message)
	}
}

func (s Status) worst() (clusterv1.ConditionSeverity, string) {
	const warning = clusterv1.ConditionSeverityWarning
	switch {
	case s.Invalid != "":
		return warning, addonsv1.ClusterMatchFailedV1Beta1Reason
	case len(s.WrongType) > 0:
		return warning, addonsv1.WrongSecretTypeV1Beta1Reason
	case len(s.Missing) > 0:
		return warning, addonsv1.RetrievingResourceFailedV1Beta1Reason
	}
	severity := clusterv1.ConditionSeverityInfo
	for _, c := range s.Clusters {
		if c.Paused || c.Binding == nil || len(s.of(c)) == 0 {
			continue
		}
		for _, f := range Failures(c.Binding) {
			switch {
			case f.ResourceRef == addonsv1.ResourceRef{} && f.Set == "":
				return clusterv1.ConditionSeverityError, addonsv1.RemoteClusterClientFailedV1Beta1Reason
			case f.Set == s.Set.Name:
				severity = warning
			}
		}
	}
	return severity, addonsv1.ApplyFailedV1Beta1Reason
}
