// SPDX-License-Identifier: Apache-2.0

package machinestatus

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

// reports builds an object that reports its own readiness.
func reports(status, severity, reason, message string) map[string]any {
	c := map[string]any{"type": "Ready", "status": status, "reason": reason, "message": message}
	if severity != "" {
		c["severity"] = severity
	}
	return map[string]any{"status": map[string]any{"conditions": []any{c}}}
}

func TestReportDeprecated(t *testing.T) {
	t.Parallel()
	withID := func(f *Facts) { f.Machine.Spec.ProviderID = "x://1" }
	said := func(conditionType, reason string) func(*Facts) {
		return func(f *Facts) {
			conditions.Set(f.Machine, now, conditions.New(conditionType, metav1.ConditionFalse, reason, "found"))
		}
	}
	at := func(reason string, drained, detached bool) func(*Facts) {
		return func(f *Facts) {
			deleted(f.Machine)
			f.Deletion = Stage{Reason: reason}
			f.Machine.Status.Deletion = &clusterv1.MachineDeletionStatus{}
			if drained {
				f.Machine.Status.Deletion.NodeDrainStartTime = metav1.NewTime(now)
			}
			if detached {
				f.Machine.Status.Deletion.WaitForNodeVolumeDetachStartTime = metav1.NewTime(now)
			}
		}
	}
	const provisioning, joined = "NodeHealthy False Info WaitingForNodeRef", "NodeHealthy True"
	const waitsForData, waitsForHost = "BootstrapReady False Info WaitingForDataSecret", "InfrastructureReady False Info WaitingForInfrastructure"
	const goingNode = "NodeHealthy False Info Deleting"
	goingRefs := []string{"BootstrapReady False Info Deleting", "InfrastructureReady False Info Deleting"}
	tests := map[string]struct {
		facts Facts
		want  []string // in the order of the list
	}{
		"nothing is there yet": {facts(), []string{"Ready False Info WaitingForInfrastructure: 0 of 2 completed", waitsForData, waitsForHost, provisioning}},
		"there are data": {
			facts(func(f *Facts) { f.Machine.Spec.Bootstrap.DataSecretName = new("data") }),
			[]string{"Ready False Info WaitingForInfrastructure: 1 of 2 completed", "BootstrapReady True", waitsForHost, provisioning},
		},
		"the host has an ID": {
			facts(withID, func(f *Facts) { f.Node.Awaited = "Waiting for a Node" }),
			[]string{"Ready False Info WaitingForInfrastructure", waitsForData, waitsForHost, "NodeHealthy False Warning NodeProvisioning: Waiting for a Node"},
		},
		"all is well": {facts(up), []string{"Ready True", "BootstrapReady True", "InfrastructureReady True", joined}},
		"the host reports an error, in either form": {
			facts(up, func(f *Facts) {
				f.Infrastructure.Obj = object("Host", reports("False", "Error", "NoQuota", "no quota"))
				f.Machine.Spec.Bootstrap.DataSecretName = nil
				f.BootstrapConfig.Obj = object("Config", reports("False", "", "Rendering", "not yet"))
			}),
			[]string{"Ready False Error NoQuota: 0 of 2 completed", "BootstrapReady False Info Rendering: not yet", "InfrastructureReady False Error NoQuota: no quota", joined},
		},
		"the host has gone": {
			facts(up, withID, missing),
			[]string{"Ready False Error Deleted: Host m0 has been deleted", "BootstrapReady True", "InfrastructureReady False Error Deleted: Host m0 has been deleted", joined},
		},
		"the host is not there, nor the data": {
			facts(missing),
			[]string{
				"Ready False Info WaitingForInfrastructure: 0 of 2 completed",
				"BootstrapReady False Info WaitingForDataSecret: Config m0, named by , does not exist: create it, or correct the reference",
				"InfrastructureReady False Info WaitingForInfrastructure: Host m0, named by , does not exist: create it, or correct the reference", provisioning,
			},
		},
		"they belong to another owner": {
			facts(withID, func(f *Facts) {
				f.Infrastructure.Held, f.Infrastructure.Err = true, "held by prod"
			}),
			[]string{"Ready False Error IncorrectExternalRef: held by prod", waitsForData, "InfrastructureReady False Error IncorrectExternalRef: held by prod", "NodeHealthy False Warning NodeProvisioning"},
		},
		"nothing was observed": {
			facts(up, unread, func(f *Facts) {
				v1beta1conditions.SetMachine(f.Machine, now, v1beta1conditions.False("InfrastructureReady", clusterv1.ConditionSeverityInfo, "R", "as it was"))
			}),
			[]string{"Ready False Info R: 1 of 2 completed", "BootstrapReady True", "InfrastructureReady False Info R: as it was", joined},
		},
		"a check has found something": {
			facts(up, withID, said(clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineHealthCheckNodeDeletedReason), said(clusterv1.MachineOwnerRemediatedCondition, clusterv1.MachineOwnerRemediatedWaitingForRemediationReason)),
			[]string{
				"Ready False Warning NodeNotFound: found", "BootstrapReady True", "HealthCheckSucceeded False Warning NodeNotFound: found", "InfrastructureReady True", joined,
				"OwnerRemediated False Warning WaitingForRemediation: found",
			},
		},
		"before the drain": {
			facts(up, at(clusterv1.MachineDeletingWaitingForPreDrainHookReason, false, false)),
			append([]string{"Ready False Info Deleting"}, append(goingRefs, goingNode, "PreDrainDeleteHookSucceeded False Info WaitingExternalHook")...),
		},
		"while the Node is drained": {
			facts(up, at(clusterv1.MachineDeletingDrainingNodeReason, true, false), func(f *Facts) {
				f.Infrastructure.Obj, f.BootstrapConfig.Obj = object("Host", reports("True", "", "", "")), object("Config", reports("True", "", "", ""))
			}),
			[]string{
				"Ready False Info Draining: Draining the Node before deletion", "BootstrapReady True",
				"DrainingSucceeded False Info Draining: Draining the Node before deletion", "InfrastructureReady True", goingNode, "PreDrainDeleteHookSucceeded True",
			},
		},
		"while volumes are detached": {
			facts(up, at(clusterv1.MachineDeletingWaitingForVolumeDetachReason, true, true)),
			append([]string{"Ready False Info Deleting", "BootstrapReady False Info Deleting", "DrainingSucceeded True"}, goingRefs[1], goingNode, "PreDrainDeleteHookSucceeded True", "VolumeDetachSucceeded False Info WaitingForVolumeDetach: Waiting for volumes of the Node to be detached"),
		},
		"when the host goes, and the Node was not drained": {
			facts(up, missing, at(clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason, false, false)),
			[]string{
				"Ready False Info Deleted", "BootstrapReady False Info Deleted", "InfrastructureReady False Info Deleted", goingNode,
				"PreDrainDeleteHookSucceeded True", "PreTerminateDeleteHookSucceeded True",
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			Report(tc.facts)
			ReportDeprecated(tc.facts)
			if diff := cmp.Diff(tc.want, builder.Deprecated(v1beta1conditions.OfMachine(tc.facts.Machine).Conditions)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			was := tc.facts.Machine.DeepCopy()
			tc.facts.Now = now.Add(time.Hour)
			ReportDeprecated(tc.facts)
			if diff := cmp.Diff(was.Status.Deprecated, tc.facts.Machine.Status.Deprecated); diff != "" {
				t.Errorf("told again (-was +is):\n%s", diff)
			}
		})
	}
}

// TestNodeHealthyForOldClients goes through the observed states of a Node.
func TestNodeHealthyForOldClients(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Facts){
		"NodeHealthy True": up,
		"NodeHealthy False Warning NodeConditionsFailed: * Node.DiskPressure: Condition is True": func(f *Facts) {
			up(f)
			f.Node.Node.Status.Conditions[2].Status = corev1.ConditionTrue
		},
		"NodeHealthy Unknown NodeConditionsFailed: * Node.Ready: Condition is Unknown": func(f *Facts) {
			up(f)
			f.Node.Node.Status.Conditions[0].Status = corev1.ConditionUnknown
		},
		"NodeHealthy False Error NodeNotFound":                         func(f *Facts) { up(f); f.Node.Node, f.Node.Gone = nil, true },
		"NodeHealthy Unknown NodeInspectionFailed: no route":           func(f *Facts) { f.Node.Failure = "no route" },
		"NodeHealthy Unknown NodeInspectionFailed: Waiting for a word": func(f *Facts) { f.Node.GraceEnds, f.Node.Awaited = now, "Waiting for a word" },
		"NodeHealthy False Info WaitingForNodeRef":                     func(*Facts) {},
		"NodeHealthy False Warning NodeProvisioning: Waiting for one": func(f *Facts) {
			f.Machine.Spec.ProviderID, f.Node.Awaited = "x://1", "Waiting for one"
		},
	} {
		f := facts(change)
		Report(f)
		if diff := cmp.Diff([]string{want}, builder.Deprecated(clusterv1.Conditions{nodeHealthyDeprecated(f)})); diff != "" {
			t.Errorf("condition (-want +got):\n%s", diff)
		}
	}
}

func TestFailuresForOldClients(t *testing.T) {
	t.Parallel()
	failing := func(f *Facts) {
		f.Infrastructure.Obj = object("Host", map[string]any{"status": map[string]any{"failureReason": "CreateError", "failureMessage": "no quota"}})
	}
	earlier := func(f *Facts) {
		f.Machine.Status.Deprecated = &clusterv1.MachineDeprecatedStatus{V1Beta1: &clusterv1.MachineV1Beta1DeprecatedStatus{FailureReason: new("Earlier")}}
	}
	for name, tc := range map[string]struct {
		facts           Facts
		reason, message *string
	}{
		"none":                              {facts(), nil, nil},
		"one that a provider reports":       {facts(earlier, failing), new("CreateError"), new("Host m0: no quota")},
		"one from before stays":             {facts(earlier), new("Earlier"), nil},
		"a host that has gone":              {facts(up, missing), new("InvalidConfiguration"), new("Host m0 has been deleted while the Machine still exists")},
		"a host that has gone as it should": {facts(up, missing, going), nil, nil},
		"a host that never was":             {facts(missing), nil, nil},
	} {
		ReportDeprecated(tc.facts)
		st := v1beta1conditions.OfMachine(tc.facts.Machine)
		if diff := cmp.Diff([]*string{tc.reason, tc.message}, []*string{st.FailureReason, st.FailureMessage}); diff != "" {
			t.Errorf("%s: reason and message (-want +got):\n%s", name, diff)
		}
	}
}
