// SPDX-License-Identifier: Apache-2.0

package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

// Deprecated shows the condition to clients of v1beta1.
func Deprecated(c metav1.Condition) clusterv1.Condition {
	severity := clusterv1.ConditionSeverityInfo
	switch c.Reason {
	case clusterv1.ClusterTopologyReconciledFailedReason:
		severity = clusterv1.ConditionSeverityError
	case clusterv1.ClusterTopologyReconciledClusterClassNotReconciledReason:
		severity = clusterv1.ConditionSeverityWarning
	}
	return v1beta1conditions.From(&c, clusterv1.TopologyReconciledV1Beta1Condition, severity, map[string]string{
		clusterv1.ClusterTopologyReconciledFailedReason: clusterv1.TopologyReconcileFailedV1Beta1Reason,
	})
}
