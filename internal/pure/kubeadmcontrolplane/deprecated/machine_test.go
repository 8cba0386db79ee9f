// SPDX-License-Identifier: Apache-2.0

package deprecated

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/pure/kubeadmcontrolplane"
	"github.com/capstan-dev/capstan/internal/pure/legacy"
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
			m := &kubeadmcontrolplane.Machine{Machine: &clusterv1.Machine{}, Health: conditions.List{conditions.New(tc.of, tc.status, tc.reason, tc.message)}}
			ReportMachine(kubeadmcontrolplane.Facts{Now: now}, kubeadmcontrolplane.Outcome{}, m)
			got := legacy.OfMachine(m.Machine).Conditions
			if len(got) != 1 || string(got[0].Type) != tc.of || text(&got[0]) != tc.want {
				t.Errorf("got %+v, want %s alone: %s", got, tc.of, tc.want)
			}
		})
	}
}

func TestRemediationOfAMachine(t *testing.T) {
	t.Parallel()
	const (
		deferred = controlplanev1.KubeadmControlPlaneMachineRemediationDeferredReason
		never    = controlplanev1.KubeadmControlPlaneMachineCannotBeRemediatedReason
		failed   = controlplanev1.KubeadmControlPlaneMachineRemediationInternalErrorReason
		begun    = controlplanev1.KubeadmControlPlaneMachineRemediationMachineDeletingReason
	)
	unhealthy := []clusterv1.Condition{
		legacy.False(clusterv1.MachineHealthCheckSucceededV1Beta1Condition, warning, clusterv1.NodeNotFoundV1Beta1Reason, ""),
		legacy.False(clusterv1.MachineOwnerRemediatedV1Beta1Condition, warning, clusterv1.WaitingForRemediationV1Beta1Reason, ""),
	}
	healthy := []clusterv1.Condition{legacy.True(clusterv1.MachineHealthCheckSucceededV1Beta1Condition), unhealthy[1]}
	for name, tc := range map[string]struct {
		machine string
		before  []clusterv1.Condition
		reason  string // of what is decided about it; "-" for nothing
		want    string
	}{
		"nobody asks for it":                 {"a", nil, "-", "none"},
		"nobody has decided":                 {"a", unhealthy, "-", "False Warning WaitingForRemediation"},
		"decided, and not begun":             {"a", unhealthy, "", "False Warning WaitingForRemediation"},
		"it waits":                           {"a", unhealthy, deferred, "False Warning WaitingForRemediation why"},
		"it will not be":                     {"a", unhealthy, never, "False Error RemediationFailed why"},
		"it could not be":                    {"a", unhealthy, failed, "False Error RemediationFailed why"},
		"it has begun":                       {"a", unhealthy, begun, "False Warning RemediationInProgress why"},
		"decided by newer conditions alone":  {"a", nil, deferred, "False Warning WaitingForRemediation why"},
		"healthy again":                      {"a", healthy, "-", "none"},
		"no health check looks at it":        {"a", unhealthy[1:], "-", "none"},
		"healthy again, and going":           {"a going", healthy, "-", "False Warning WaitingForRemediation"},
		"another one is waited for, not it":  {"a", unhealthy, "other", "False Warning WaitingForRemediation"},
		"another one is waited for, healthy": {"a", healthy, "other", "none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, o := machine(tc.machine), kubeadmcontrolplane.Outcome{}
			legacy.SetMachine(m.Machine, now, tc.before...)
			switch tc.reason {
			case "-":
			case "other":
				o.Remediation = &kubeadmcontrolplane.Remediation{Machine: machine("b"), Reason: deferred}
			default:
				o.Remediation = &kubeadmcontrolplane.Remediation{Machine: m, Reason: tc.reason, Message: "why"}
			}
			ReportMachine(kubeadmcontrolplane.Facts{Now: now}, o, m)
			if diff := cmp.Diff(tc.want, text(legacy.Get(legacy.OfMachine(m.Machine).Conditions, clusterv1.MachineOwnerRemediatedV1Beta1Condition))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
