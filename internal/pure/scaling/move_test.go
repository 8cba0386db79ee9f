// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/inplace"
)

// joined is a Machine with a Node.
func joined(name string, change ...func(*clusterv1.Machine)) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name}}
	m.Status.NodeRef.Name = name
	for _, c := range change {
		c(m)
	}
	return m
}

func isUpdating(m *clusterv1.Machine) { inplace.Mark(m) }

func hasFailed(m *clusterv1.Machine) {
	inplace.Mark(m)
	m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineUpdatingCondition, Status: metav1.ConditionTrue, Reason: clusterv1.MachineInPlaceUpdateFailedReason}}
}

func wantedGone(m *clusterv1.Machine) {
	m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse}}
}

func chosen(m *clusterv1.Machine) {
	m.Annotations = map[string]string{clusterv1.DeleteMachineAnnotation: ""}
}

func nodeless(m *clusterv1.Machine) { m.Status.NodeRef.Name = "" }

func TestMachinesOfWhichThereAreTooManyAreHandedOver(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		machines []*clusterv1.Machine
		to       Recipient
		want     []string
	}{
		"as long as there is room": {
			machines: []*clusterv1.Machine{joined("a"), joined("b"), joined("c")}, to: Recipient{Name: "new", Room: 2},
			want: []string{"hand a over to new: have 3, want 0", "hand b over to new: have 3, want 0", "delete c: have 3, want 0"},
		},
		"none before it is awaited there":   {machines: []*clusterv1.Machine{joined("a")}, to: Recipient{Name: "new", Room: 1, Awaited: "x"}},
		"one that is updated is waited for": {machines: []*clusterv1.Machine{joined("a", isUpdating)}, to: Recipient{Name: "new", Room: 1}},
		"one whose update has failed is deleted": {
			machines: []*clusterv1.Machine{joined("a", hasFailed)}, to: Recipient{Name: "new", Room: 1},
			want: []string{"delete a: have 1, want 0; its update in place has failed"},
		},
		"one that must be replaced anyway is deleted": {
			machines: []*clusterv1.Machine{joined("a", wantedGone), joined("b", chosen), joined("c", nodeless)}, to: Recipient{Name: "new", Room: 3},
			want: []string{"delete b: have 3, want 0", "delete c: have 3, want 0", "delete a: have 3, want 0"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, a := range Plan(Facts{Machines: tc.machines, Recipient: &tc.to}) {
				got = append(got, a.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRecipientOf(t *testing.T) {
	t.Parallel()
	of := func(uid, name string, annotations map[string]string, replicas int32) *clusterv1.MachineSet {
		s := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
		s.OwnerReferences = []metav1.OwnerReference{{Kind: "MachineDeployment", Name: "md", UID: "md", Controller: new(true)}}
		if uid != "" {
			s.OwnerReferences[0].UID = "other"
		}
		s.Spec.Replicas = &replicas
		return s
	}
	from := of("", "old", map[string]string{clusterv1.MachineSetMoveMachinesToMachineSetAnnotation: "new"}, 2)
	receives := map[string]string{clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation: "older,old", clusterv1.DesiredReplicasAnnotation: "3"}
	handed := joined("m", func(m *clusterv1.Machine) {
		m.Annotations = map[string]string{clusterv1.PendingAcknowledgeMoveAnnotation: ""}
	})
	tests := map[string]struct {
		from, to *clusterv1.MachineSet
		machines []*clusterv1.Machine
		want     *Recipient
	}{
		"no set is named":                   {from: of("", "old", nil, 2), to: of("", "new", receives, 0)},
		"the set has no manager":            {from: &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Annotations: from.Annotations}}},
		"it is not there":                   {from: from, want: &Recipient{Name: "new", Awaited: "Waiting for MachineSet new of MachineDeployment md to exist"}},
		"it is another MachineDeployment's": {from: from, to: of("x", "new", receives, 0), want: &Recipient{Name: "new", Awaited: "Waiting for MachineSet new of MachineDeployment md to exist"}},
		"it does not know of it":            {from: from, to: of("", "new", nil, 0), want: &Recipient{Name: "new", Awaited: "Waiting for MachineSet new to receive Machines from MachineSet old"}},
		"it has room":                       {from: from, to: of("", "new", receives, 1), want: &Recipient{Name: "new", Room: 2}},
		"it has less room for each that was handed over and is not counted": {
			from: from, to: of("", "new", receives, 1), machines: []*clusterv1.Machine{handed, joined("x")}, want: &Recipient{Name: "new", Room: 1},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, RecipientOf(tc.from, tc.to, tc.machines)); diff != "" {
				t.Errorf("recipient (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMachinesThatAreNotCountedAreLeftAlone(t *testing.T) {
	t.Parallel()
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{clusterv1.AcknowledgedMoveAnnotation: "known"}}}
	hand := func(m *clusterv1.Machine) { inplace.Target{}.Take(m) }
	begun := func(m *clusterv1.Machine) {
		hand(m)
		inplace.Begin(m)
	}
	machines := []*clusterv1.Machine{joined("fresh", hand), joined("known", hand), joined("started", begun), joined("plain")}
	names := func(all []*clusterv1.Machine) (out []string) {
		for _, m := range all {
			out = append(out, m.Name)
		}
		return out
	}
	if diff := cmp.Diff([]string{"known", "started", "plain"}, names(Counted(set, machines))); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"known"}, names(ToUpdate(set, machines))); diff != "" {
		t.Errorf("to update (-want +got):\n%s", diff)
	}
}
