// SPDX-License-Identifier: Apache-2.0

package clusterstatus

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/pure/reference"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

func TestReportDeprecated(t *testing.T) {
	t.Parallel()
	ready := func(f *Facts) {
		f.ControlPlane.Obj = object("Brain", map[string]any{"status": map[string]any{"conditions": []any{
			map[string]any{"type": "Ready", "status": "False", "severity": "Warning", "reason": "ScalingUp", "message": "to 3"},
		}}})
	}
	planeless := func(f *Facts) { f.ControlPlane = reference.Object{} }
	converted := func(f *Facts) {
		f.Cluster.Status.Deprecated = &clusterv1.ClusterDeprecatedStatus{V1Beta1: &clusterv1.ClusterV1Beta1DeprecatedStatus{}}
	}
	unread := func(f *Facts) { f.ControlPlane.Obj, f.Infrastructure.Obj = nil, nil }
	told := func(f *Facts) { SetDeprecated(f.Cluster, now, v1beta1conditions.True("ControlPlaneReady")) }
	const plane, infra = "ControlPlaneReady True", "InfrastructureReady True"
	tests := map[string]struct {
		facts Facts
		want  []string
	}{
		"on its way": {facts(converted), []string{
			"Ready False Info WaitingForControlPlane", "ControlPlaneInitialized False Info WaitingForControlPlaneProviderInitialized",
			"ControlPlaneReady False Info WaitingForControlPlane", "InfrastructureReady False Info WaitingForInfrastructure",
		}},
		"all is well": {facts(provisioned, initialized), []string{"Ready True", "ControlPlaneInitialized True", plane, infra}},
		"the control plane reports more": {facts(provisioned, initialized, ready), []string{
			"Ready False Warning ScalingUp: to 3", "ControlPlaneInitialized True", "ControlPlaneReady False Warning ScalingUp: to 3", infra,
		}},
		"without references":             {facts(bare), []string{"Ready True", "ControlPlaneInitialized False Info MissingNodeRef", infra}},
		"without a control plane object": {facts(planeless, initialized, provisioned), []string{"Ready True", "ControlPlaneInitialized True", infra}},
		"references are still to come": {facts(bare, topology), []string{
			"Ready False Info WaitingForControlPlane", "ControlPlaneInitialized False Info WaitingForControlPlaneProviderInitialized",
			"ControlPlaneReady False Info WaitingForControlPlane", "InfrastructureReady False Info WaitingForInfrastructure",
		}},
		"being deleted": {facts(provisioned, initialized, deleted), []string{
			"Ready False Info Deleting", "ControlPlaneInitialized True", "ControlPlaneReady False Info Deleting", "InfrastructureReady False Info Deleting",
		}},
		"when all has gone": {facts(provisioned, initialized, deleted, missing), []string{
			"Ready False Info Deleted", "ControlPlaneInitialized True", "ControlPlaneReady False Info Deleted", "InfrastructureReady False Info Deleted",
		}},
		"what has gone while the Cluster lives": {facts(provisioned, initialized, missing), []string{
			"Ready False Error Deleted: Brain demo has been deleted", "ControlPlaneInitialized True",
			"ControlPlaneReady False Error Deleted: Brain demo has been deleted", "InfrastructureReady False Error Deleted: Net demo has been deleted",
		}},
		"a deletion that has not looked yet": {facts(initialized, deleted, unread, told), []string{
			"Ready False Info WaitingForInfrastructure", "ControlPlaneInitialized True", plane, "InfrastructureReady False Info WaitingForInfrastructure",
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ReportDeprecated(tc.facts)
			if diff := cmp.Diff(tc.want, builder.Deprecated(deprecatedOf(tc.facts.Cluster).Conditions)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheTopologysConditionIsKept has two writers write on one Cluster.
func TestTheTopologysConditionIsKept(t *testing.T) {
	t.Parallel()
	f := facts(provisioned, initialized)
	SetDeprecated(f.Cluster, now, v1beta1conditions.True(clusterv1.TopologyReconciledV1Beta1Condition))
	f.Now = now.Add(time.Hour)
	ReportDeprecated(f)
	want := []string{"Ready True", "ControlPlaneInitialized True", "ControlPlaneReady True", "InfrastructureReady True", "TopologyReconciled True"}
	all := deprecatedOf(f.Cluster).Conditions
	if diff := cmp.Diff(want, builder.Deprecated(all)); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if at := v1beta1conditions.Get(all, clusterv1.TopologyReconciledV1Beta1Condition).LastTransitionTime; !at.Time.Equal(now) {
		t.Errorf("its time is %s, want it as it was", at)
	}
}
