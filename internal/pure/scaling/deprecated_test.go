// SPDX-License-Identifier: Apache-2.0

package scaling

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

func TestReportDeprecated(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	nodeIs := func(status metav1.ConditionStatus, since time.Time) func(*clusterv1.Machine) {
		return func(m *clusterv1.Machine) {
			conditions.Set(m, since, conditions.New(clusterv1.MachineNodeReadyCondition, status, "R", ""))
			v1beta1conditions.SetMachine(m, since, v1beta1conditions.True("Ready"))
		}
	}
	ready := func(name string) *clusterv1.Machine { return joined(name, nodeIs("True", noon.Add(-time.Hour))) }
	unready := func(name string) *clusterv1.Machine { return joined(name, nodeIs("False", noon)) }
	coming := func(name string) *clusterv1.Machine {
		m := bare(name)
		v1beta1conditions.SetMachine(m, noon, v1beta1conditions.False("Ready", clusterv1.ConditionSeverityInfo, "WaitingForInfrastructure", "0 of 2 completed"))
		return m
	}
	fresh := joined("fresh", nodeIs("True", noon.Add(-time.Minute)))
	labelled := ready("labelled")
	labelled.Labels = map[string]string{"app": "x", "more": "y"}
	set := func(n int32, change ...func(*clusterv1.MachineSet)) *clusterv1.MachineSet {
		s := &clusterv1.MachineSet{Spec: clusterv1.MachineSetSpec{Replicas: &n}}
		s.Spec.Template.Labels = map[string]string{"app": "x"}
		for _, c := range change {
			c(s)
		}
		return s
	}
	wasResized := func(s *clusterv1.MachineSet) {
		s.Status.Deprecated = &clusterv1.MachineSetDeprecatedStatus{V1Beta1: &clusterv1.MachineSetV1Beta1DeprecatedStatus{
			Conditions: clusterv1.Conditions{v1beta1conditions.True("Resized"), v1beta1conditions.True("MachinesReady")}, ReadyReplicas: 7, FailureReason: new("kept"),
		}}
	}
	converted := func(s *clusterv1.MachineSet) {
		s.Status.Deprecated = &clusterv1.MachineSetDeprecatedStatus{V1Beta1: &clusterv1.MachineSetV1Beta1DeprecatedStatus{}}
	}
	patient := func(s *clusterv1.MachineSet) { s.Spec.Template.Spec.MinReadySeconds = new(int32(600)) }
	deleted := func(s *clusterv1.MachineSet) { s.DeletionTimestamp = new(metav1.NewTime(noon)) }
	const created, resized, machines = "MachinesCreated True", "Resized True", "MachinesReady True"
	growing := "Resized False Warning ScalingUp: Scaling up MachineSet to 2 replicas (actual 2)"
	tests := map[string]struct {
		s        Status
		want     []string
		counters [3]int32 // fully labelled, ready, available
	}{
		"all is well":               {Status{Set: set(2), Machines: []*clusterv1.Machine{ready("a"), labelled}}, []string{"Ready True", created, machines, resized}, [3]int32{1, 2, 2}},
		"none are wanted":           {Status{Set: set(0)}, []string{"Ready True", created, machines, resized}, [3]int32{}},
		"an empty one is not taken": {Status{Set: set(0, converted)}, []string{"Ready True", created, machines, resized}, [3]int32{}},
		"none reports yet": {
			Status{Set: set(2, wasResized), Machines: []*clusterv1.Machine{bare("a"), bare("b")}},
			[]string{"Ready False Warning ScalingUp: Scaling up MachineSet to 2 replicas (actual 2)", created, growing}, [3]int32{},
		},
		"some are coming": {
			Status{Set: set(2, wasResized), Machines: []*clusterv1.Machine{ready("a"), coming("b")}},
			[]string{
				"Ready False Warning ScalingUp: Scaling up MachineSet to 2 replicas (actual 2)", created,
				"MachinesReady False Info WaitingForInfrastructure @ Machine/b: 1 of 2 completed", growing,
			}, [3]int32{0, 1, 1},
		},
		"a Node has failed": {Status{Set: set(2, wasResized), Machines: []*clusterv1.Machine{ready("a"), unready("b")}}, []string{"Ready True", created, machines, resized}, [3]int32{0, 1, 1}},
		"a Node has not been ready yet": {
			Status{Set: set(2), Machines: []*clusterv1.Machine{ready("a"), unready("b")}},
			[]string{"Ready False Warning ScalingUp: Scaling up MachineSet to 2 replicas (actual 2)", created, machines, growing}, [3]int32{0, 1, 1},
		},
		"some are not available yet": {Status{Set: set(2, patient), Machines: []*clusterv1.Machine{ready("a"), fresh}}, []string{"Ready True", created, machines, resized}, [3]int32{0, 2, 1}},
		"too many": {
			Status{Set: set(1), Machines: []*clusterv1.Machine{ready("a"), ready("b")}},
			[]string{"Ready False Warning ScalingDown: Scaling down MachineSet to 1 replicas (actual 2)", created, machines, "Resized False Warning ScalingDown: Scaling down MachineSet to 1 replicas (actual 2)"},
			[3]int32{0, 2, 2},
		},
		"too few, and none may be made": {
			Status{Set: set(2), Machines: []*clusterv1.Machine{ready("a")}, Blocked: []string{"one", "two"}},
			[]string{"Ready False Error PreflightCheckFailed: one; two", "MachinesCreated False Error PreflightCheckFailed: one; two", machines, "Resized False Warning ScalingUp: Scaling up MachineSet to 2 replicas (actual 1)"},
			[3]int32{0, 1, 1},
		},
		"enough, and none may be updated": {Status{Set: set(1), Machines: []*clusterv1.Machine{ready("a")}, Blocked: []string{"one"}}, []string{"Ready True", created, machines, resized}, [3]int32{0, 1, 1}},
		"one could not be made": {
			Status{Set: set(1), NotCreated: v1beta1conditions.Failure{Reason: "MachineCreationFailed", Message: "quota"}, Failed: true},
			[]string{"Ready False Error MachineCreationFailed: quota", "MachinesCreated False Error MachineCreationFailed: quota", machines, "Resized False Warning ScalingUp: Scaling up MachineSet to 1 replicas (actual 0)"},
			[3]int32{},
		},
		"being deleted": {Status{Set: set(1, deleted)}, []string{"Ready False Info Deleting", created, machines, "Resized False Info Deleting"}, [3]int32{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.s.Now = noon
			kept := deprecatedOf(tc.s.Set).FailureReason
			ReportDeprecated(tc.s)
			st := deprecatedOf(tc.s.Set)
			if diff := cmp.Diff(tc.want, builder.Deprecated(st.Conditions)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if got := [3]int32{st.FullyLabeledReplicas, st.ReadyReplicas, st.AvailableReplicas}; got != tc.counters {
				t.Errorf("fully labelled, ready, available %v, want %v", got, tc.counters)
			}
			if st.FailureReason != kept {
				t.Errorf("failure reason %v, want it as it was", st.FailureReason)
			}
		})
	}
}
