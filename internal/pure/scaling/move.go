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

// Recipient is the MachineSet to which surplus Machines of a set are moved.
type Recipient struct {
	Name string
	Room int // how many Machines it still accepts
	// Awaited is what must happen before it accepts any; empty for nothing.
	Awaited string
}

// RecipientName is the MachineSet that the MachineDeployment of a set has named as the
// recipient of its Machines; empty if there is none.
func RecipientName(set *clusterv1.MachineSet) string {
	if standalone := metav1.GetControllerOfNoCopy(set) == nil; standalone {
		return ""
	}
	return set.Annotations[clusterv1.MachineSetMoveMachinesToMachineSetAnnotation]
}

// RecipientOf returns what the MachineSet of that name accepts: to may be nil, if it
// does not exist; machines are its own. Both sides must name each other, or a Machine
// could be lost between them.
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

// Counted are the Machines of a set that its MachineDeployment counts toward it. Others
// were handed over to it, and are not changed until they are counted.
func Counted(set *clusterv1.MachineSet, machines []*clusterv1.Machine) []*clusterv1.Machine {
	taken := inplace.Names(set.Annotations[clusterv1.AcknowledgedMoveAnnotation])
	return slices.DeleteFunc(slices.Clone(machines), func(m *clusterv1.Machine) bool {
		return inplace.Moved(m) && !slices.Contains(taken, m.Name)
	})
}

// ToUpdate are the Machines of a set whose desired state it has yet to write.
func ToUpdate(set *clusterv1.MachineSet, machines []*clusterv1.Machine) []*clusterv1.Machine {
	return slices.DeleteFunc(Counted(set, machines), func(m *clusterv1.Machine) bool {
		return !inplace.InProgress(m) || inplace.Pending(m) || !m.DeletionTimestamp.IsZero()
	})
}

// leave is the action for a surplus Machine: nil if it has to wait. It is moved to the
// recipient if that has room, and if the Machine can be updated: one that will be
// deleted in any case is deleted, and so is one whose last update has failed. An update
// in progress is not interrupted.
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
