// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder"
)

func TestDeprecated(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]metav1.Condition{
		"TopologyReconciled True":                                       {Status: "True", Reason: clusterv1.ClusterTopologyReconcileSucceededReason, Message: "a note"},
		"TopologyReconciled False Info ClusterCreating: m":              {Status: "False", Reason: clusterv1.ClusterTopologyReconciledClusterCreatingReason, Message: "m"},
		"TopologyReconciled False Info Paused: m":                       {Status: "False", Reason: clusterv1.ClusterTopologyReconcilePausedReason, Message: "m"},
		"TopologyReconciled False Warning ClusterClassNotReconciled: m": {Status: "False", Reason: clusterv1.ClusterTopologyReconciledClusterClassNotReconciledReason, Message: "m"},
		"TopologyReconciled False Error TopologyReconcileFailed: m":     {Status: "False", Reason: clusterv1.ClusterTopologyReconciledFailedReason, Message: "m"},
	} {
		if diff := cmp.Diff([]string{want}, builder.Deprecated(clusterv1.Conditions{Deprecated(c)})); diff != "" {
			t.Errorf("condition (-want +got):\n%s", diff)
		}
	}
}
