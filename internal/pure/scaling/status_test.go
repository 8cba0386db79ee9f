// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

func TestReport(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	told := func(m *clusterv1.Machine, kind string, status metav1.ConditionStatus, message string) *clusterv1.Machine {
		conditions.Set(m, noon, metav1.Condition{Type: kind, Status: status, Reason: "R", Message: message})
		return m
	}
	ready := func(name string) *clusterv1.Machine {
		m := told(bare(name), clusterv1.MachineReadyCondition, metav1.ConditionTrue, "")
		told(m, clusterv1.MachineUpToDateCondition, metav1.ConditionTrue, "")
		return told(m, clusterv1.MachineAvailableCondition, metav1.ConditionTrue, "")
	}
	machineSet := func(n int32) *clusterv1.MachineSet {
		return &clusterv1.MachineSet{Spec: clusterv1.MachineSetSpec{Replicas: &n}}
	}
	unset, going, wasBlocked := machineSet(0), machineSet(2), machineSet(1)
	conditions.Set(wasBlocked, noon, conditions.New(clusterv1.MachineUpdatingCondition, metav1.ConditionTrue, clusterv1.MachineInPlaceUpdatingReason, "x"))
	unset.Spec.Replicas = nil
	going.DeletionTimestamp = new(metav1.NewTime(noon))
	tests := map[string]struct {
		s    Status
		want map[string]string // condition to status, reason and message
		// replicas, ready, available, up to date
		counters [4]int32
	}{
		"all is well": {
			s:        Status{Set: machineSet(1), Machines: []*clusterv1.Machine{ready("a")}},
			counters: [4]int32{1, 1, 1, 1},
			want: map[string]string{
				"MachinesReady": "True Ready", "MachinesUpToDate": "True UpToDate", "ScalingUp": "False NotScalingUp", "ScalingDown": "False NotScalingDown",
				"Remediating": "False NotRemediating", "Deleting": "False NotDeleting", "Paused": "False NotPaused",
			},
		},
		"none are wanted": {
			s:    Status{Set: machineSet(0)},
			want: map[string]string{"MachinesReady": "True NoReplicas", "MachinesUpToDate": "True NoReplicas"},
		},
		"some are missing": {
			s:        Status{Set: machineSet(3), Machines: []*clusterv1.Machine{bare("a")}, Blocked: []string{"one thing", "another"}},
			counters: [4]int32{1},
			want: map[string]string{
				"MachinesReady":    "Unknown ReadyUnknown * Machine a: Condition Ready not yet reported",
				"MachinesUpToDate": "True NoReplicas", // it has no UpToDate condition
				"ScalingUp":        "True ScalingUp Scaling up from 1 to 3 replicas is blocked because:\n* one thing\n* another",
			},
		},
		"some are too many": {
			s:        Status{Set: machineSet(1), Machines: []*clusterv1.Machine{ready("a"), told(ready("b"), clusterv1.MachineReadyCondition, metav1.ConditionFalse, "no Node")}},
			counters: [4]int32{2, 1, 2, 2},
			want: map[string]string{
				"MachinesReady": "False NotReady * Machine b: no Node",
				"ScalingDown":   "True ScalingDown Scaling down from 2 to 1 replicas",
			},
		},
		"one is being remediated": {
			s:        Status{Set: machineSet(1), Machines: []*clusterv1.Machine{told(ready("a"), clusterv1.MachineOwnerRemediatedCondition, metav1.ConditionFalse, "Waiting for remediation")}},
			counters: [4]int32{1, 1, 1, 1},
			want:     map[string]string{"Remediating": "True Remediating * Machine a: Waiting for remediation"},
		},
		"replicas are not set": {
			s: Status{Set: unset},
			want: map[string]string{
				"ScalingUp":   "Unknown WaitingForReplicasSet Waiting for spec.replicas to be set",
				"ScalingDown": "Unknown WaitingForReplicasSet Waiting for spec.replicas to be set",
			},
		},
		"one waits to be updated": {
			s: Status{Set: machineSet(2), Blocked: []string{"one thing"}, Machines: []*clusterv1.Machine{
				ready("a"), told(joined("b", isUpdating), clusterv1.MachineUpToDateCondition, metav1.ConditionFalse, ""),
			}},
			counters: [4]int32{2, 1, 1, 1},
			want: map[string]string{
				"ScalingUp": "False NotScalingUp", "Updating": "True InPlaceUpdating Updating Machines in place is blocked because:\n* one thing",
			},
		},
		"none waits any more": {
			s:        Status{Set: wasBlocked, Machines: []*clusterv1.Machine{ready("a")}},
			counters: [4]int32{1, 1, 1, 1},
			want:     map[string]string{"ScalingUp": "False NotScalingUp"},
		},
		"being deleted": {
			s:        Status{Set: going, Machines: []*clusterv1.Machine{ready("a")}},
			counters: [4]int32{1, 1, 1, 1},
			want: map[string]string{
				"ScalingUp":   "False NotScalingUp",
				"ScalingDown": "True ScalingDown Scaling down from 1 to 0 replicas",
				"Deleting":    "True Deleting Waiting for 1 Machine to be deleted: a",
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.s.Cluster, tc.s.Now = &clusterv1.Cluster{}, noon
			Report(tc.s)
			st := tc.s.Set.Status
			got := map[string]string{}
			for _, c := range st.Conditions {
				if _, wanted := tc.want[c.Type]; wanted || c.Type == clusterv1.MachineUpdatingCondition {
					got[c.Type] = string(c.Status) + " " + c.Reason
					if c.Message != "" {
						got[c.Type] += " " + c.Message
					}
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if counters := [4]int32{*st.Replicas, *st.ReadyReplicas, *st.AvailableReplicas, *st.UpToDateReplicas}; counters != tc.counters {
				t.Errorf("got counters %v, want %v", counters, tc.counters)
			}
		})
	}
}
