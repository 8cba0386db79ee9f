// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"fmt"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/pure/inplace"
)

// Move hands one Machine over to another MachineSet, which updates it in place.
type Move struct{ Name, To, Why string }

// String implements Action.
func (a Move) String() string { return "hand " + a.Name + " over to " + a.To + ": " + a.Why }

// Recipient is the MachineSet to which Machines go that a set has too many of.
type Recipient struct {
	Name string
	Room int // how many Machines it still takes
	// Awaited is what has to come before it takes any; empty for nothing.
	Awaited string
}

// RecipientName is the MachineSet that the MachineDeployment of a set has named to
// take its Machines; empty if none is to.
func RecipientName(set *clusterv1.MachineSet) string {
	if standalone := metav1.GetControllerOfNoCopy(set) == nil; standalone {
		return ""
	}
	return set.Annotations[clusterv1.MachineSetMoveMachinesToMachineSetAnnotation]
}

// RecipientOf tells what the MachineSet of that name takes: to may be nil, if it is
// not there; machines are its own. Both sides have to know of the other, or a
// Machine could get lost between them.
func RecipientOf(from, to *clusterv1.MachineSet, machines []*clusterv1.Machine) *Recipient {
	r := &Recipient{Name: RecipientName(from)}
	by := metav1.GetControllerOfNoCopy(from)
	switch {
	case r.Name == "":
		return nil
	case to == nil || !to.DeletionTimestamp.IsZero() || !metav1.IsControlledBy(to, &metav1.ObjectMeta{UID: by.UID}):
		r.Awaited = fmt.Sprintf("Waiting for MachineSet %s of MachineDeployment %s to exist", r.Name, by.Name)
		return r
	case !slices.Contains(inplace.Names(to.Annotations[clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation]), from.Name):
		r.Awaited = fmt.Sprintf("Waiting for MachineSet %s to receive Machines from MachineSet %s", to.Name, from.Name)
		return r
	}
	want, err := strconv.Atoi(to.Annotations[clusterv1.DesiredReplicasAnnotation])
	if err != nil || to.Spec.Replicas == nil {
		r.Awaited = fmt.Sprintf("Waiting for annotation %s of MachineSet %s", clusterv1.DesiredReplicasAnnotation, to.Name)
		return r
	}
	r.Room = want - int(*to.Spec.Replicas) - len(machines) + len(Counted(to, machines))
	return r
}

// Counted are the Machines of a set that its MachineDeployment counts as its own.
// Others were handed over to it, and are left alone until it does.
func Counted(set *clusterv1.MachineSet, machines []*clusterv1.Machine) []*clusterv1.Machine {
	taken := inplace.Names(set.Annotations[clusterv1.AcknowledgedMoveAnnotation])
	return slices.DeleteFunc(slices.Clone(machines), func(m *clusterv1.Machine) bool {
		return inplace.Moved(m) && !slices.Contains(taken, m.Name)
	})
}

// ToUpdate are the Machines of a set for which it has still to write what they are
// to be.
func ToUpdate(set *clusterv1.MachineSet, machines []*clusterv1.Machine) []*clusterv1.Machine {
	return slices.DeleteFunc(Counted(set, machines), func(m *clusterv1.Machine) bool {
		return !inplace.InProgress(m) || inplace.Pending(m) || !m.DeletionTimestamp.IsZero()
	})
}

// leave is what becomes of a Machine of which there is one too many: nil if it
// has to wait. It goes to the recipient if that has room, and if the Machine can
// be updated: one that is to go anyhow is deleted, and so is one whose last update
// has failed. An update under way is let come to its end.
func (f Facts) leave(m *clusterv1.Machine, why string, room *int) Action {
	to := f.Recipient
	_, doomed := m.Annotations[clusterv1.DeleteMachineAnnotation]
	doomed = doomed || conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition) || !m.Status.NodeRef.IsDefined()
	failed := conditions.Reason(m, clusterv1.MachineUpdatingCondition) == clusterv1.MachineInPlaceUpdateFailedReason
	switch {
	case to == nil || doomed:
		return Delete{m.Name, why}
	case to.Awaited != "":
		return nil
	case inplace.InProgress(m) && !failed:
		return nil
	case inplace.InProgress(m):
		return Delete{m.Name, why + "; its update in place has failed"}
	case *room <= 0:
		return Delete{m.Name, why}
	}
	*room--
	return Move{m.Name, to.Name, why}
}
