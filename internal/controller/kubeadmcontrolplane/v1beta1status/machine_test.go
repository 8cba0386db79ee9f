// SPDX-License-Identifier: Apache-2.0

package v1beta1status

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/controlplane"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

func TestComponentsOfAMachine(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		of      string
		status  metav1.ConditionStatus
		reason  string
		want    string
		message string
	}{
		"a Pod that runs":               {"SchedulerPodHealthy", metav1.ConditionTrue, "Running", "True", ""},
		"a Pod that starts":             {"ControllerManagerPodHealthy", metav1.ConditionFalse, "Provisioning", "False Info PodProvisioning m", "m"},
		"a Pod that goes":               {"EtcdPodHealthy", metav1.ConditionFalse, "Deleting", "False Info Deleting m", "m"},
		"a Pod that is not there":       {"APIServerPodHealthy", metav1.ConditionFalse, "DoesNotExist", "False Error PodMissing m", "m"},
		"a Pod that has failed":         {"APIServerPodHealthy", metav1.ConditionFalse, "Failed", "False Error PodFailed m", "m"},
		"a Pod that cannot be seen":     {"APIServerPodHealthy", metav1.ConditionUnknown, "InspectionFailed", "Unknown PodInspectionFailed m", "m"},
		"a cluster that is lost":        {"APIServerPodHealthy", metav1.ConditionUnknown, "ConnectionDown", "Unknown PodInspectionFailed m", "m"},
		"a member that is well":         {"EtcdMemberHealthy", metav1.ConditionTrue, "Healthy", "True", ""},
		"a member that is not":          {"EtcdMemberHealthy", metav1.ConditionFalse, "NotHealthy", "False Error EtcdMemberUnhealthy m", "m"},
		"a member of a machine's end":   {"EtcdMemberHealthy", metav1.ConditionFalse, "Deleting", "False Info Deleting m", "m"},
		"a member that cannot be asked": {"EtcdMemberHealthy", metav1.ConditionUnknown, "InspectionFailed", "Unknown MemberInspectionFailed m", "m"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &controlplane.Machine{Machine: &clusterv1.Machine{}, Health: conditions.List{conditions.New(tc.of, tc.status, tc.reason, tc.message)}}
			ReportMachine(controlplane.Facts{Now: now}, m)
			got := v1beta1conditions.OfMachine(m.Machine).Conditions
			if len(got) != 1 || string(got[0].Type) != tc.of || text(&got[0]) != tc.want {
				t.Errorf("got %+v, want %s alone: %s", got, tc.of, tc.want)
			}
		})
	}
}

func TestRemediationOfAMachine(t *testing.T) {
	t.Parallel()
	m := machine("a")
	for _, step := range []struct{ reason, want string }{
		{controlplanev1.KubeadmControlPlaneMachineRemediationDeferredReason, "False Warning WaitingForRemediation why"},
		{controlplanev1.KubeadmControlPlaneMachineCannotBeRemediatedReason, "False Error RemediationFailed why"},
		{controlplanev1.KubeadmControlPlaneMachineRemediationInternalErrorReason, "False Error RemediationFailed why"},
		{controlplanev1.KubeadmControlPlaneMachineRemediationMachineDeletingReason, "False Warning RemediationInProgress why"},
		{"", "none"},
	} {
		if step.reason == "" {
			conditions.Delete(m.Machine, clusterv1.MachineOwnerRemediatedCondition)
		} else {
			conditions.Set(m.Machine, now, conditions.New(clusterv1.MachineOwnerRemediatedCondition, metav1.ConditionFalse, step.reason, "why"))
		}
		ReportMachine(controlplane.Facts{Now: now}, m)
		if diff := cmp.Diff(step.want, text(v1beta1conditions.Get(v1beta1conditions.OfMachine(m.Machine).Conditions, clusterv1.MachineOwnerRemediatedV1Beta1Condition))); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}
