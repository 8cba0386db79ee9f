// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

func TestReport(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	machine := func(name string, status metav1.ConditionStatus) *clusterv1.Machine {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, c := range []string{clusterv1.MachineReadyCondition, clusterv1.MachineAvailableCondition} {
			conditions.Set(m, noon, metav1.Condition{Type: c, Status: status, Reason: "R", Message: map[metav1.ConditionStatus]string{metav1.ConditionFalse: "no Node"}[status]})
		}
		return m
	}
	outdated := func(m *clusterv1.Machine, why string) *clusterv1.Machine {
		conditions.Set(m, noon, metav1.Condition{Type: clusterv1.MachineUpToDateCondition, Status: metav1.ConditionFalse, Reason: "NotUpToDate", Message: why})
		return m
	}
	sick := func(m *clusterv1.Machine) *clusterv1.Machine {
		conditions.Set(m, noon, metav1.Condition{Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse, Reason: "Waiting", Message: "Waiting for remediation"})
		return m
	}
	blocked := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: "md-1"}}
	conditions.Set(blocked, noon, metav1.Condition{Type: clusterv1.MachineSetScalingUpCondition, Status: metav1.ConditionTrue, Reason: "ScalingUp", Message: "Scaling up from 0 to 2 replicas is blocked because:\n* cp is upgrading"})
	current := func(m *clusterv1.Machine, set string) *clusterv1.Machine {
		m.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(set), Controller: new(true)}}
		conditions.Set(m, noon, metav1.Condition{Type: clusterv1.MachineUpToDateCondition, Status: metav1.ConditionTrue, Reason: "UpToDate"})
		return m
	}
	setOf := func(version string) *clusterv1.MachineSet {
		set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: version, UID: types.UID(version)}}
		set.Spec.Template.Spec.Version = version
		return set
	}
	before, after := current(machine("a", metav1.ConditionTrue), "v1"), current(machine("b", metav1.ConditionTrue), "v2")
	unset := deployment(0)
	unset.Spec.Replicas = nil
	deletingOne := deployment(1)
	deletingOne.DeletionTimestamp = new(metav1.NewTime(noon))
	tests := map[string]struct {
		s            Status
		wantPhase    string
		wantUpToDate int32
		want         map[string]string // condition to status, reason and message
	}{
		"all is well": {
			s:         Status{Deployment: deployment(1), Machines: []*clusterv1.Machine{machine("a", metav1.ConditionTrue)}},
			wantPhase: "Running",
			want: map[string]string{
				"Available": "True Available", "MachinesReady": "True Ready", "MachinesUpToDate": "True NoReplicas", "RollingOut": "False NotRollingOut",
				"ScalingUp": "False NotScalingUp", "ScalingDown": "False NotScalingDown", "Remediating": "False NotRemediating", "Deleting": "False NotDeleting", "Paused": "False NotPaused",
			},
		},
		"one is not ready": {
			s:         Status{Deployment: deployment(1), Machines: []*clusterv1.Machine{machine("a", metav1.ConditionFalse)}},
			wantPhase: "Running",
			want: map[string]string{
				"Available":     "False NotAvailable 0 available replicas, at least 1 required (spec.replicas is 1, 0 may be unavailable)",
				"MachinesReady": "False NotReady * Machine a: no Node",
			},
		},
		"a MachineSet is blocked": {
			s:         Status{Deployment: deployment(2), Sets: []*clusterv1.MachineSet{blocked}},
			wantPhase: "ScalingUp",
			want: map[string]string{
				"ScalingUp": "True ScalingUp Scaling up from 0 to 2 replicas\n* MachineSet md-1:\n  Scaling up from 0 to 2 replicas is blocked because:\n  * cp is upgrading",
				"Available": "False NotAvailable 0 available replicas, at least 2 required (spec.replicas is 2, 0 may be unavailable)\n* MachineSet md-1:\n  Scaling up from 0 to 2 replicas is blocked because:\n  * cp is upgrading",
			},
		},
		"a MachineSet is blocked in a rollout": {s: Status{Deployment: deployment(1), Sets: []*clusterv1.MachineSet{blocked}, Machines: []*clusterv1.Machine{outdated(machine("a", metav1.ConditionTrue), "* Version v1.35.0, v1.36.0 required")}}, wantPhase: "Running", want: map[string]string{"RollingOut": "True RollingOut Rolling out 1 not up-to-date replicas\n* Version v1.35.0, v1.36.0 required\n* MachineSet md-1:\n  Scaling up from 0 to 2 replicas is blocked because:\n  * cp is upgrading", "Available": "True Available"}},
		"templates are missing from the start": {s: Status{Deployment: deployment(1), Blocked: []string{"HostTemplate ht is missing"}}, wantPhase: "ScalingUp", want: map[string]string{"Available": "False NotAvailable 0 available replicas, at least 1 required (spec.replicas is 1, 0 may be unavailable)\n* HostTemplate ht is missing"}},
		"in the middle of a rollout": {
			s: Status{Deployment: deployment(1), Machines: []*clusterv1.Machine{
				outdated(machine("a", metav1.ConditionTrue), "* Version v1.35.0, v1.36.0 required"),
				outdated(machine("b", metav1.ConditionTrue), "* Version v1.35.0, v1.36.0 required"),
			}},
			wantPhase: "ScalingDown",
			want: map[string]string{
				"RollingOut":       "True RollingOut Rolling out 2 not up-to-date replicas\n* Version v1.35.0, v1.36.0 required",
				"ScalingDown":      "True ScalingDown Scaling down from 2 to 1 replicas",
				"MachinesUpToDate": "False NotUpToDate * Machines a, b:\n  * Version v1.35.0, v1.36.0 required",
			},
		},
		"another version is wanted, which the Machines have not heard of": {
			s: Status{
				Deployment: deployment(2), Machines: []*clusterv1.Machine{before, after}, Sets: []*clusterv1.MachineSet{setOf("v1"), setOf("v2")},
				BySet: map[types.UID][]*clusterv1.Machine{"v1": {before}, "v2": {after}},
			},
			wantPhase:    "Running",
			wantUpToDate: 1,
			want: map[string]string{
				"RollingOut":       "True RollingOut Rolling out 1 not up-to-date replicas\n* Version v1, v2 required",
				"MachinesUpToDate": "False NotUpToDate * Machine a:\n  * Version v1, v2 required",
			},
		},
		"a template is missing": {
			s:         Status{Deployment: deployment(1), Machines: []*clusterv1.Machine{outdated(machine("a", metav1.ConditionTrue), "* Version v1.35.0, v1.36.0 required")}, Blocked: []string{"HostTemplate ht is missing"}},
			wantPhase: "Running",
			want:      map[string]string{"RollingOut": "True RollingOut Rolling out 1 not up-to-date replicas is blocked because:\n* HostTemplate ht is missing"},
		},
		"one is being remediated": {
			s:         Status{Deployment: deployment(1), Machines: []*clusterv1.Machine{sick(machine("a", metav1.ConditionTrue))}},
			wantPhase: "Running",
			want:      map[string]string{"Remediating": "True Remediating * Machine a: Waiting for remediation"},
		},
		"replicas are not set": {
			s:         Status{Deployment: unset},
			wantPhase: "Unknown",
			want: map[string]string{
				"Available":   "Unknown WaitingForReplicasSet Waiting for spec.replicas to be set",
				"ScalingUp":   "Unknown WaitingForReplicasSet Waiting for spec.replicas to be set",
				"ScalingDown": "Unknown WaitingForReplicasSet Waiting for spec.replicas to be set",
			},
		},
		"being deleted": {
			s:         Status{Deployment: deletingOne, Sets: []*clusterv1.MachineSet{{ObjectMeta: metav1.ObjectMeta{Name: "md-1"}}}, Machines: []*clusterv1.Machine{machine("a", metav1.ConditionFalse)}},
			wantPhase: "ScalingDown",
			want: map[string]string{
				"Available":   "False NotAvailable Deletion in progress",
				"ScalingUp":   "False NotScalingUp",
				"ScalingDown": "True ScalingDown Scaling down from 1 to 0 replicas",
				"Deleting":    "True Deleting Waiting for MachineSets to be deleted: md-1, with 1 Machine",
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.s.Cluster, tc.s.Now = &clusterv1.Cluster{}, noon
			Report(tc.s)
			got := map[string]string{}
			for _, c := range tc.s.Deployment.Status.Conditions {
				if _, wanted := tc.want[c.Type]; wanted {
					got[c.Type] = string(c.Status) + " " + c.Reason
					if c.Message != "" {
						got[c.Type] += " " + c.Message
					}
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if tc.s.Deployment.Status.Phase != tc.wantPhase {
				t.Errorf("got phase %s, want %s", tc.s.Deployment.Status.Phase, tc.wantPhase)
			}
			if got := *tc.s.Deployment.Status.UpToDateReplicas; got != tc.wantUpToDate {
				t.Errorf("%d are up to date, want %d", got, tc.wantUpToDate)
			}
		})
	}
}
