// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

func TestReportDeprecated(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	deployment := func(replicas int32, unavailable int) *clusterv1.MachineDeployment {
		md := &clusterv1.MachineDeployment{Spec: clusterv1.MachineDeploymentSpec{Replicas: &replicas}}
		md.Spec.Template.Spec.Version = "v2"
		md.Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt(unavailable))
		return md
	}
	set := func(version string, replicas int32, change ...func(*clusterv1.MachineSet)) *clusterv1.MachineSet {
		s := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: version, UID: types.UID(version)}}
		s.Spec.Template.Spec.Version, s.Spec.Replicas = version, &replicas
		for _, c := range change {
			c(s)
		}
		return s
	}
	blocked := func(s *clusterv1.MachineSet) {
		s.Status.Deprecated = &clusterv1.MachineSetDeprecatedStatus{V1Beta1: &clusterv1.MachineSetV1Beta1DeprecatedStatus{
			Conditions: clusterv1.Conditions{v1beta1conditions.False("MachinesCreated", clusterv1.ConditionSeverityError, "PreflightCheckFailed", "no"), v1beta1conditions.True("Ready")},
		}}
	}
	machine := func(of string, status metav1.ConditionStatus, since time.Duration) *clusterv1.Machine {
		m := &clusterv1.Machine{}
		m.OwnerReferences = []metav1.OwnerReference{{Kind: "MachineSet", Name: of, UID: types.UID(of), Controller: new(true)}}
		m.Status.NodeRef.Name = "n"
		conditions.Set(m, noon.Add(-since), conditions.New(clusterv1.MachineNodeReadyCondition, status, "R", ""))
		return m
	}
	ready := func(of string) *clusterv1.Machine { return machine(of, "True", time.Hour) }
	const waits = "MachineSetReady False Info WaitingForMachineSet"
	tests := map[string]struct {
		deployment *clusterv1.MachineDeployment
		sets       []*clusterv1.MachineSet
		machines   []*clusterv1.Machine
		want       []string
		counters   [4]int32 // updated, ready, available, unavailable
	}{
		"all is well": {
			deployment(2, 0), []*clusterv1.MachineSet{set("v2", 2)}, []*clusterv1.Machine{ready("v2"), ready("v2")},
			[]string{"Ready True", "Available True", "MachineSetReady True"}, [4]int32{2, 2, 2, 0},
		},
		"no MachineSet yet": {deployment(2, 0), nil, nil, []string{
			"Ready False Warning WaitingForAvailableMachines: Minimum availability requires 2 replicas, current 0 available",
			"Available False Warning WaitingForAvailableMachines: Minimum availability requires 2 replicas, current 0 available", waits,
		}, [4]int32{}},
		"no current MachineSet": {deployment(0, 0), []*clusterv1.MachineSet{set("v1", 0)}, nil, []string{"Ready True", "Available True", waits}, [4]int32{}},
		"a rollout": {
			deployment(3, 1), []*clusterv1.MachineSet{set("v1", 2), set("v2", 2)}, []*clusterv1.Machine{ready("v1"), ready("v1"), ready("v2")},
			[]string{"Ready True", "Available True", "MachineSetReady False Warning ScalingUp: Scaling up MachineSet to 2 replicas (actual 1)"}, [4]int32{1, 3, 3, 0},
		},
		"a MachineSet that may create none": {
			deployment(1, 0), []*clusterv1.MachineSet{set("v2", 1, blocked)}, []*clusterv1.Machine{ready("v2")},
			[]string{"Ready True", "Available True", "MachineSetReady False Error PreflightCheckFailed: no"}, [4]int32{1, 1, 1, 0},
		},
		"too few are available": {
			deployment(3, 1), []*clusterv1.MachineSet{set("v2", 3)}, []*clusterv1.Machine{ready("v2"), machine("v2", "False", time.Hour), machine("v2", "True", time.Second)},
			[]string{
				"Ready False Warning WaitingForAvailableMachines: Minimum availability requires 2 replicas, current 1 available",
				"Available False Warning WaitingForAvailableMachines: Minimum availability requires 2 replicas, current 1 available",
				"MachineSetReady False Warning ScalingUp: Scaling up MachineSet to 3 replicas (actual 3)",
			}, [4]int32{3, 2, 1, 2},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, set := range tc.sets {
				set.Spec.Template.Spec.MinReadySeconds = new(int32(60))
			}
			bySet := map[types.UID][]*clusterv1.Machine{}
			for _, m := range tc.machines {
				bySet[m.OwnerReferences[0].UID] = append(bySet[m.OwnerReferences[0].UID], m)
			}
			ReportDeprecated(Status{Deployment: tc.deployment, Sets: tc.sets, Machines: tc.machines, BySet: bySet, Now: noon})
			st := tc.deployment.Status.Deprecated.V1Beta1
			if diff := cmp.Diff(tc.want, builder.Deprecated(st.Conditions)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if got := [4]int32{st.UpdatedReplicas, st.ReadyReplicas, st.AvailableReplicas, st.UnavailableReplicas}; got != tc.counters {
				t.Errorf("updated, ready, available, unavailable %v, want %v", got, tc.counters)
			}
		})
	}
}
