// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/pause"
	"github.com/capstan-dev/capstan/internal/pure/machinestatus"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

// Status is the input of the status of a MachineSet.
type Status struct {
	Set      *clusterv1.MachineSet
	Cluster  *clusterv1.Cluster // nil: it does not exist
	Selector string
	Machines []*clusterv1.Machine // of the set, including those being deleted
	Blocked  []string             // why no Machine can be created now
	// NotCreated is why a Machine could not be created; zero if none was tried, or all
	// were created.
	NotCreated v1beta1conditions.Failure
	Now        time.Time
	Failed     bool // this reconcile failed: the status is what was read before
}

// Report fills the status of the MachineSet.
func Report(s Status) {
	st := &s.Set.Status
	n := machinestatus.CountMachines(s.Machines)
	st.Replicas, st.ReadyReplicas, st.AvailableReplicas, st.UpToDateReplicas = &n.Replicas, &n.Ready, &n.Available, &n.UpToDate
	st.Versions = n.Versions(machinestatus.MostOfGroup)
	st.Selector = s.Selector
	if !s.Failed {
		st.ObservedGeneration = s.Set.Generation
	}
	all := append(s.group().Conditions(), s.deleting(), pause.Condition(s.Cluster, s.Set))
	if len(s.Blocked) > 0 && len(ToUpdate(s.Set, s.Machines)) > 0 {
		all = append(all, conditions.New(clusterv1.MachineUpdatingCondition, metav1.ConditionTrue, clusterv1.MachineInPlaceUpdatingReason, "Updating Machines in place"+BlockedBecause(s.Blocked)))
	} else {
		conditions.Delete(s.Set, clusterv1.MachineUpdatingCondition)
	}
	for _, c := range all {
		c.ObservedGeneration = s.Set.Generation
		conditions.Set(s.Set, s.Now, c)
	}
}

// UpdateBlocked returns why a set does not start to update the Machines that were handed
// over to it; empty if it does, or there are none. The set has the condition only during
// that time.
func UpdateBlocked(set *clusterv1.MachineSet) string {
	return conditions.Message(set, clusterv1.MachineUpdatingCondition)
}

func (s Status) group() Group {
	return Group{Machines: s.Machines, Replicas: s.Set.Spec.Replicas, Deleting: !s.Set.DeletionTimestamp.IsZero(), Blocked: BlockedBecause(s.Blocked)}
}

func (s Status) deleting() metav1.Condition {
	c := metav1.Condition{Type: clusterv1.MachineSetDeletingCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineSetNotDeletingReason}
	if s.Set.DeletionTimestamp.IsZero() {
		return c
	}
	c.Status, c.Reason, c.Message = metav1.ConditionTrue, clusterv1.MachineSetDeletingReason, "Deletion completed"
	if len(s.Machines) > 0 {
		var names []string
		for _, m := range s.Machines {
			names = append(names, m.Name)
		}
		slices.Sort(names)
		c.Message = fmt.Sprintf("Waiting for %s to be deleted: %s", conditions.Count(len(names), "Machine"), conditions.Names(names))
	}
	return c
}
