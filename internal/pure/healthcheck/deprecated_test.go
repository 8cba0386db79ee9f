// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

// TestReportSetsV1Beta1Conditions goes through the states of a Machine: the v1beta1
// conditions follow the current ones.
func TestReportSetsV1Beta1Conditions(t *testing.T) {
	t.Parallel()
	m, at := &clusterv1.Machine{}, time.Unix(0, 0)
	set := func(conditionType string, status metav1.ConditionStatus, reason, message string) func() {
		return func() { conditions.Set(m, at, conditions.New(conditionType, status, reason, message)) }
	}
	for _, step := range []struct {
		change func()
		want   []string
	}{
		{func() {}, nil},
		{set(succeeded, "True", clusterv1.MachineHealthCheckSucceededReason, ""), []string{"HealthCheckSucceeded True"}},
		{set(succeeded, "Unknown", clusterv1.MachineHealthCheckConnectionDownReason, "no word"), []string{"HealthCheckSucceeded Unknown ConnectionDown: no word"}},
		{set(succeeded, "False", clusterv1.MachineHealthCheckHasRemediateAnnotationReason, "asked"), []string{"HealthCheckSucceeded False Warning HasRemediateMachineAnnotation: asked"}},
		{set(succeeded, "False", clusterv1.MachineHealthCheckUnhealthyNodeReason, "Node"), []string{"HealthCheckSucceeded False Warning UnhealthyNode: Node"}},
		{
			set(byOwner, "False", clusterv1.MachineOwnerRemediatedWaitingForRemediationReason, "soon"),
			[]string{"HealthCheckSucceeded False Warning UnhealthyNode: Node", "OwnerRemediated False Warning WaitingForRemediation: soon"},
		},
		{
			set(byOwner, "False", clusterv1.MachineSetMachineRemediationDeferredReason, "later"),
			[]string{"HealthCheckSucceeded False Warning UnhealthyNode: Node", "OwnerRemediated False Warning WaitingForRemediation: later"},
		},
		{
			set(byOwner, "False", clusterv1.MachineSetMachineCannotBeRemediatedReason, "never"),
			[]string{"HealthCheckSucceeded False Warning UnhealthyNode: Node", "OwnerRemediated False Error RemediationFailed: never"},
		},
		{
			set(byOwner, "False", clusterv1.InternalErrorReason, "an error"),
			[]string{"HealthCheckSucceeded False Warning UnhealthyNode: Node", "OwnerRemediated False Error RemediationFailed: an error"},
		},
		{
			set(byOwner, "False", clusterv1.MachineSetMachineRemediationMachineDeletingReason, "now"),
			[]string{"HealthCheckSucceeded False Warning UnhealthyNode: Node", "OwnerRemediated False Warning RemediationInProgress: now"},
		},
		{func() { conditions.Delete(m, succeeded); conditions.Delete(m, byOwner) }, nil},
	} {
		step.change()
		v1beta1conditions.SetMachine(m, at, Deprecated(m)...)
		if diff := cmp.Diff(step.want, builder.Deprecated(v1beta1conditions.OfMachine(m).Conditions)); diff != "" {
			t.Errorf("conditions (-want +got):\n%s", diff)
		}
	}
}

func TestAnOldRequestAloneStartsNothing(t *testing.T) {
	t.Parallel()
	m := &clusterv1.Machine{}
	v1beta1conditions.SetMachine(m, time.Unix(0, 0),
		v1beta1conditions.False(clusterv1.MachineHealthCheckSucceededV1Beta1Condition, clusterv1.ConditionSeverityWarning, "R", ""),
		v1beta1conditions.False(clusterv1.MachineOwnerRemediatedV1Beta1Condition, clusterv1.ConditionSeverityWarning, "R", ""))
	if MarkedForRemediation(m) {
		t.Error("the owner is asked to replace it")
	}
}

func TestReportSetsV1Beta1RemediationAllowed(t *testing.T) {
	t.Parallel()
	check, at := &clusterv1.MachineHealthCheck{}, time.Unix(0, 0)
	for _, step := range []struct {
		status metav1.ConditionStatus
		reason string
		want   string
	}{
		{"True", clusterv1.MachineHealthCheckRemediationAllowedReason, "RemediationAllowed True"},
		{"False", clusterv1.MachineHealthCheckTooManyUnhealthyReason, "RemediationAllowed False Warning TooManyUnhealthy: m"},
		{"Unknown", clusterv1.MachineHealthCheckConnectionDownReason, "RemediationAllowed Unknown ConnectionDown: m"},
	} {
		conditions.Set(check, at, conditions.New(clusterv1.MachineHealthCheckRemediationAllowedCondition, step.status, step.reason, "m"))
		ReportDeprecated(check, at)
		if diff := cmp.Diff([]string{step.want}, builder.Deprecated(check.Status.Deprecated.V1Beta1.Conditions)); diff != "" {
			t.Errorf("conditions (-want +got):\n%s", diff)
		}
	}
}
