// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
)

// mark is a property of a Machine in a test.
type mark func(*clusterv1.Machine)

// machine returns an available Machine of the MachineDeployment md.
func machine(name string, marks ...mark) *clusterv1.Machine {
	m := &clusterv1.Machine{}
	m.Name, m.UID = name, types.UID("uid-"+name)
	m.Labels = map[string]string{clusterv1.MachineDeploymentNameLabel: "md"}
	condition(m, clusterv1.MachineAvailableCondition, metav1.ConditionTrue, "")
	condition(m, clusterv1.MachineUpToDateCondition, metav1.ConditionTrue, "")
	for _, mark := range marks {
		mark(m)
	}
	return m
}

func condition(m *clusterv1.Machine, kind string, status metav1.ConditionStatus, message string) {
	for i := range m.Status.Conditions {
		if c := &m.Status.Conditions[i]; c.Type == kind {
			c.Status, c.Message = status, message
			return
		}
	}
	m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: kind, Status: status, Message: message})
}

func deleting(m *clusterv1.Machine) { m.DeletionTimestamp = new(metav1.Unix(1, 0)) }

func unavailable(m *clusterv1.Machine) {
	condition(m, clusterv1.MachineAvailableCondition, metav1.ConditionFalse, "")
}

func outdated(m *clusterv1.Machine) {
	condition(m, clusterv1.MachineUpToDateCondition, metav1.ConditionFalse, "* Version v1.35.0, v1.36.0 required\n* LocalMachineTemplate a, b required")
}

func unhealthy(m *clusterv1.Machine) {
	condition(m, clusterv1.MachineHealthCheckSucceededCondition, metav1.ConditionFalse, "Node is not ready")
}

func timeout(seconds int32) mark {
	return func(m *clusterv1.Machine) { m.Spec.Deletion.NodeDrainTimeoutSeconds = &seconds }
}

func controlPlane(m *clusterv1.Machine) {
	m.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
	m.OwnerReferences = []metav1.OwnerReference{{Kind: "KubeadmControlPlane", Name: "kcp", Controller: new(true)}}
}

// moment is what the Machines are after so many minutes.
type moment struct {
	after    int
	machines []*clusterv1.Machine
}

func observe(moments []moment) *Observations {
	o := &Observations{}
	for _, at := range moments {
		o.Add(time.Duration(at.after)*time.Minute, at.machines)
	}
	return o
}

// lines describe Machines: name, action, the Machine in its place, wave, time, cause.
func lines(all []planv1.Machine) (lines []string) {
	for _, m := range all {
		line := fmt.Sprintf("%s %s", m.Name, m.Action)
		if m.By != "" {
			line += " by " + m.By
		}
		if m.Wave > 0 {
			line += fmt.Sprintf(" wave %d", m.Wave)
		}
		if m.After != nil {
			line += " after " + m.After.Duration.String()
		}
		if m.Cause != "" {
			line += ": " + m.Cause
		}
		for _, f := range m.Fields {
			line += fmt.Sprintf(" [%s: %s to %s]", f.Path, f.From, f.To)
		}
		lines = append(lines, line)
	}
	return lines
}

func TestMachinesDescribesEachMachine(t *testing.T) {
	t.Parallel()
	const because = "Version v1.35.0, v1.36.0 required; LocalMachineTemplate a, b required"
	for name, tc := range map[string]struct {
		moments []moment
		want    []string
	}{
		"none": {moments: []moment{{0, nil}}},
		"kept": {
			moments: []moment{{0, []*clusterv1.Machine{machine("a")}}, {5, []*clusterv1.Machine{machine("a")}}},
			want:    []string{"a Kept"},
		},
		"status alone is no change": {
			moments: []moment{{0, []*clusterv1.Machine{machine("a")}}, {5, []*clusterv1.Machine{machine("a", unavailable)}}},
			want:    []string{"a Kept"},
		},
		"changed and changed back": {
			moments: []moment{{0, []*clusterv1.Machine{machine("a", timeout(1))}}, {1, []*clusterv1.Machine{machine("a", timeout(2))}}, {2, []*clusterv1.Machine{machine("a", timeout(1))}}},
			want:    []string{"a Kept"},
		},
		"changed": {
			moments: []moment{{0, []*clusterv1.Machine{machine("a", timeout(1))}}, {5, []*clusterv1.Machine{machine("a", timeout(2))}}},
			want:    []string{"a Changed [spec.deletion.nodeDrainTimeoutSeconds: 1 to 2]"},
		},
		"the first that is deleted is replaced by the first that is created": {
			moments: []moment{
				{0, []*clusterv1.Machine{machine("a"), machine("b")}},
				{1, []*clusterv1.Machine{machine("a", outdated), machine("b", outdated), machine("y", unavailable)}},
				{2, []*clusterv1.Machine{machine("a", outdated), machine("b", outdated, deleting), machine("y"), machine("x")}},
				{3, []*clusterv1.Machine{machine("a", outdated, deleting), machine("y"), machine("x")}},
				{4, []*clusterv1.Machine{machine("y"), machine("x")}},
			},
			want: []string{"b Replaced by y wave 1 after 2m0s: " + because, "a Replaced by x wave 2 after 3m0s: " + because},
		},
		"two in one wave": {
			moments: []moment{
				{0, []*clusterv1.Machine{machine("a"), machine("b"), machine("c")}},
				{2, []*clusterv1.Machine{machine("a", deleting), machine("b", deleting), machine("c")}},
				{3, []*clusterv1.Machine{machine("c", deleting)}},
			},
			want: []string{
				"a Deleted wave 1 after 2m0s: MachineDeployment md scales down from 3 to 1", "b Deleted wave 1 after 2m0s: MachineDeployment md scales down from 3 to 1",
				"c Deleted wave 2 after 3m0s: MachineDeployment md scales down from 3 to 1",
			},
		},
		"a Machine that is not seen while it is deleted": {
			moments: []moment{{0, []*clusterv1.Machine{machine("a"), machine("b")}}, {7, []*clusterv1.Machine{machine("b")}}},
			want:    []string{"a Deleted wave 1 after 7m0s: MachineDeployment md scales down from 2 to 1", "b Kept"},
		},
		"unhealthy": {
			moments: []moment{
				{0, []*clusterv1.Machine{machine("a")}},
				{1, []*clusterv1.Machine{machine("a", unhealthy, deleting)}},
				{2, []*clusterv1.Machine{machine("b")}},
			},
			want: []string{"a Replaced by b wave 1 after 1m0s: Node is not ready"},
		},
		"the cause of a Machine that is out of date and deleted without another": {
			moments: []moment{
				{0, []*clusterv1.Machine{machine("a"), machine("b")}},
				{1, []*clusterv1.Machine{machine("a", outdated, deleting), machine("b")}},
				{2, []*clusterv1.Machine{machine("b")}},
			},
			want: []string{"a Deleted wave 1 after 1m0s: " + because, "b Kept"},
		},
		"created": {
			moments: []moment{{0, []*clusterv1.Machine{machine("a")}}, {1, []*clusterv1.Machine{machine("a"), machine("b")}}, {2, []*clusterv1.Machine{machine("a"), machine("b"), machine("c")}}},
			want:    []string{"b Created after 1m0s", "c Created after 2m0s", "a Kept"},
		},
		"transient": {
			moments: []moment{
				{0, []*clusterv1.Machine{machine("a")}},
				{1, []*clusterv1.Machine{machine("a"), machine("b", unhealthy)}},
				{2, []*clusterv1.Machine{machine("a"), machine("b", unhealthy, deleting)}},
				{3, []*clusterv1.Machine{machine("a")}},
			},
			want: []string{"a Kept", "b Transient after 1m0s: Node is not ready"},
		},
		"of several owners, the control plane first": {
			moments: []moment{
				{0, []*clusterv1.Machine{machine("a"), machine("z", controlPlane)}},
				{1, []*clusterv1.Machine{machine("b"), machine("z", controlPlane, deleting), machine("y", controlPlane)}},
				{2, []*clusterv1.Machine{machine("b"), machine("y", controlPlane)}},
			},
			want: []string{"z Replaced by y wave 1 after 1m0s", "a Replaced by b wave 1 after 1m0s"},
		},
		"a Machine of the same name is another Machine": {
			moments: []moment{{0, []*clusterv1.Machine{machine("a")}}, {1, []*clusterv1.Machine{machine("a", func(m *clusterv1.Machine) { m.UID = "another" })}}},
			want:    []string{"a Replaced by a wave 1 after 1m0s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := observe(tc.moments)
			if diff := cmp.Diff(tc.want, lines(o.Machines())); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			for _, m := range o.Machines() {
				if existed := m.UID != ""; existed == (m.Action == planv1.Created || m.Action == planv1.Transient) {
					t.Errorf("Machine %s, %s, has the UID %q", m.Name, m.Action, m.UID)
				}
			}
		})
	}
}

func TestGroupsCountMachines(t *testing.T) {
	t.Parallel()
	o := observe([]moment{
		{0, []*clusterv1.Machine{machine("a"), machine("b"), machine("c", unavailable), machine("z", controlPlane)}},
		{1, []*clusterv1.Machine{machine("a", deleting), machine("b", unavailable), machine("c", deleting), machine("z", controlPlane)}},
		{2, []*clusterv1.Machine{machine("b"), machine("z", controlPlane), machine("y", controlPlane)}},
	})
	want := []planv1.Group{
		{Owner: "KubeadmControlPlane kcp", ControlPlane: true, Before: 1, Then: 2, AvailableBefore: 1, FewestAvailable: 1},
		{Owner: "MachineDeployment md", Before: 3, Then: 1, AvailableBefore: 2, FewestAvailable: 0, MostDeleting: 2},
	}
	if diff := cmp.Diff(want, o.Groups()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestGroupsHaveOwnersWithoutMachines checks owners that have none at first, and
// those that lose all.
func TestGroupsHaveOwnersWithoutMachines(t *testing.T) {
	t.Parallel()
	o := observe([]moment{
		{0, []*clusterv1.Machine{machine("a")}},
		{1, []*clusterv1.Machine{machine("z", controlPlane)}},
		{2, nil},
	})
	want := []planv1.Group{
		{Owner: "KubeadmControlPlane kcp", ControlPlane: true},
		{Owner: "MachineDeployment md", Before: 1, AvailableBefore: 1},
	}
	if diff := cmp.Diff(want, o.Groups()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestOwnerNamesWhatCreatesMachines(t *testing.T) {
	t.Parallel()
	for want, m := range map[string]*clusterv1.Machine{
		"MachineDeployment md":    machine("a"),
		"KubeadmControlPlane kcp": machine("a", controlPlane),
		"MachinePool p":           machine("a", func(m *clusterv1.Machine) { m.Labels = map[string]string{clusterv1.MachinePoolNameLabel: "p"} }),
		"":                        machine("a", func(m *clusterv1.Machine) { m.Labels = nil }),
	} {
		if got := Owner(m); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestUnendingHasPeriodAndCost(t *testing.T) {
	t.Parallel()
	// Each minute in which two Machines are deleted, two others are created.
	endless := []moment{{0, []*clusterv1.Machine{machine("a"), machine("b")}}}
	for i := range 4 {
		name := fmt.Sprint("n", i)
		endless = append(endless,
			moment{10 * i, []*clusterv1.Machine{machine(name + "a"), machine(name + "b")}},
			moment{10*i + 7, []*clusterv1.Machine{machine(name+"a", deleting), machine(name+"b", deleting)}})
	}
	for name, tc := range map[string]struct {
		moments []moment
		want    *planv1.Unending
	}{
		"each wave deletes what the one before created": {endless, &planv1.Unending{Period: metav1.Duration{Duration: 10 * time.Minute}, Machines: 2}},
		"an ordinary rollout": {[]moment{
			{0, []*clusterv1.Machine{machine("a"), machine("b")}},
			{1, []*clusterv1.Machine{machine("a", deleting), machine("b"), machine("c")}},
			{2, []*clusterv1.Machine{machine("b", deleting), machine("c"), machine("d")}},
			{3, []*clusterv1.Machine{machine("c"), machine("d")}},
		}, nil},
		"one created Machine that fails": {endless[:3], nil},
	} {
		if diff := cmp.Diff(tc.want, observe(tc.moments).Unending()); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

func TestSettledWhenNothingIsDeletedOrOutdated(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		last []*clusterv1.Machine
		want bool
	}{
		"none":     {nil, true},
		"kept":     {[]*clusterv1.Machine{machine("a")}, true},
		"replaced": {[]*clusterv1.Machine{machine("b")}, true},
		"deleting": {[]*clusterv1.Machine{machine("a", deleting)}, false},
		"outdated": {[]*clusterv1.Machine{machine("a", outdated)}, false},
	} {
		o := observe([]moment{{0, []*clusterv1.Machine{machine("a")}}, {1, tc.last}})
		if got := o.Settled(); got != tc.want {
			t.Errorf("%s: got %t, want %t", name, got, tc.want)
		}
	}
}
