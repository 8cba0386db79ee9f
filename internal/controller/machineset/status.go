// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/pause"
	"github.com/capstan-dev/capstan/internal/pure/counting"
	"github.com/capstan-dev/capstan/internal/pure/scaling"
)

// report fills the status from the state. It is pure. failed is what the
// reconcile ended with.
func report(s *state, failed error) {
	st := &s.set.Status
	n := counting.Machines(s.machines)
	st.Replicas, st.ReadyReplicas, st.AvailableReplicas, st.UpToDateReplicas = &n.Replicas, &n.Ready, &n.Available, &n.UpToDate
	st.Versions = n.Versions(counting.MostOfGroup)
	st.Selector = s.selector.String()
	if failed == nil {
		st.ObservedGeneration = s.set.Generation
	}
	for _, c := range append(s.group().Conditions(), deleting(s), pause.Condition(s.cluster, s.set)) {
		c.ObservedGeneration = s.set.Generation
		conditions.Set(s.set, s.now, c)
	}
}

func (s *state) group() scaling.Group {
	g := scaling.Group{Machines: s.machines, Replicas: s.set.Spec.Replicas, Deleting: !s.set.DeletionTimestamp.IsZero()}
	if len(s.blocked) > 0 {
		g.Blocked = " is blocked because:\n* " + strings.Join(s.blocked, "\n* ")
	}
	return g
}

func deleting(s *state) metav1.Condition {
	c := metav1.Condition{Type: clusterv1.MachineSetDeletingCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineSetNotDeletingReason}
	if s.set.DeletionTimestamp.IsZero() {
		return c
	}
	c.Status, c.Reason, c.Message = metav1.ConditionTrue, clusterv1.MachineSetDeletingReason, "Deletion completed"
	if len(s.machines) > 0 {
		var names []string
		for _, m := range s.machines {
			names = append(names, m.Name)
		}
		slices.Sort(names)
		c.Message = fmt.Sprintf("Waiting for %s to be deleted: %s", conditions.Count(len(names), "Machine"), conditions.Names(names))
	}
	return c
}
