// SPDX-License-Identifier: Apache-2.0

package machinestatus

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// bare is a Machine that is made for a version, with a Node of another, and has
// conditions that are True.
func bare(spec, kubelet string, conditions ...string) *clusterv1.Machine {
	m := &clusterv1.Machine{Spec: clusterv1.MachineSpec{Version: spec}}
	if kubelet != "" {
		m.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: kubelet}
	}
	for _, c := range conditions {
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: c, Status: metav1.ConditionTrue})
	}
	return m
}

func good() *clusterv1.Machine {
	return bare("", "", clusterv1.MachineReadyCondition, clusterv1.MachineAvailableCondition, clusterv1.MachineUpToDateCondition)
}

func TestMachines(t *testing.T) {
	t.Parallel()
	updating, long := good(), strings.Repeat("v", 257)
	updating.Annotations = map[string]string{clusterv1.UpdateInProgressAnnotation: ""}
	tests := map[string]struct {
		machines []*clusterv1.Machine
		want     Counters
		versions []clusterv1.StatusVersion
	}{
		"none":                              {},
		"a new one counts only as replica":  {machines: []*clusterv1.Machine{bare("", "")}, want: Counters{Desired: 1, Replicas: 1}},
		"one in an update is not available": {machines: []*clusterv1.Machine{good(), updating}, want: Counters{Desired: 2, Replicas: 2, Ready: 1, Available: 1, UpToDate: 1}},
		"the Node's version wins, oldest first": {
			machines: []*clusterv1.Machine{bare("v1.36.0", ""), bare("v1.36.0", "v1.35.10"), bare("v1.36.0", "v1.35.9"), bare("v1.36.0", "odd")},
			want:     Counters{Desired: 4, Replicas: 4},
			versions: []clusterv1.StatusVersion{
				{Version: "v1.35.9", Replicas: 1}, {Version: "v1.35.10", Replicas: 1}, {Version: "v1.36.0", Replicas: 1}, {Version: "odd", Replicas: 1},
			},
		},
		"unless it is longer than a status can hold": {
			machines: []*clusterv1.Machine{bare("v1.36.0", long), bare("", long)}, want: Counters{Desired: 2, Replicas: 2},
			versions: []clusterv1.StatusVersion{{Version: "v1.36.0", Replicas: 1}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := CountMachines(tc.machines)
			if diff := cmp.Diff(&tc.want, got, cmpopts.IgnoreUnexported(Counters{})); diff != "" {
				t.Errorf("counters (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.versions, got.Versions(MostOfGroup)); diff != "" {
				t.Errorf("versions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGroupsAreSummedUp(t *testing.T) {
	t.Parallel()
	c := CountMachines([]*clusterv1.Machine{bare("v1.35.0", "", clusterv1.MachineReadyCondition)})
	c.Group(Group{Desired: new(int32(3)), Replicas: new(int32(2)), Ready: new(int32(2)), Available: new(int32(1)), UpToDate: new(int32(1)), Versions: []clusterv1.StatusVersion{
		{Version: "v1.35.0", Replicas: 1}, {Version: "v1.34.0", Replicas: 1}, {Version: "v1.33.0"},
	}})
	c.Group(Group{Desired: new(int32(1))})
	if diff := cmp.Diff(&Counters{Desired: 5, Replicas: 3, Ready: 3, Available: 1, UpToDate: 1}, c, cmpopts.IgnoreUnexported(Counters{})); diff != "" {
		t.Errorf("counters (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]clusterv1.StatusVersion{{Version: "v1.34.0", Replicas: 1}, {Version: "v1.35.0", Replicas: 2}}, c.Versions(MostOfCluster)); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

func TestAStatusHoldsSoManyVersions(t *testing.T) {
	t.Parallel()
	c, reported := &Counters{}, []clusterv1.StatusVersion{{}, {Version: "v1.0.0", Replicas: -1}, {Version: "v1.0.1"}}
	for i := range 200 {
		c.Machine(bare(fmt.Sprintf("v1.%d.0", i), ""))
		reported = append(reported, clusterv1.StatusVersion{Version: fmt.Sprintf("v1.%d.0", 199-i), Replicas: 1})
	}
	for name, got := range map[string][]clusterv1.StatusVersion{"counted": c.Versions(MostOfCluster), "reported": ListedVersions(reported, MostOfCluster)} {
		if len(got) != 32 || got[0].Version != "v1.0.0" || got[0].Replicas != 1 {
			t.Errorf("%s: %d versions, the first %v; want 32 from v1.0.0 on", name, len(got), got[0])
		}
	}
	if got := c.Versions(MostOfGroup); len(got) != 100 || got[99].Version != "v1.99.0" {
		t.Errorf("%d versions, want 100 to v1.99.0", len(got))
	}
}
