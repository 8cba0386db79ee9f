// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

// Group is an object that has Machines: a MachineSet, a MachineDeployment or a
// MachinePool.
type Group struct {
	Machines []*clusterv1.Machine
	Kind     string // the kind that they represent; empty for Machine
	Current  *int32 // how many there are, if that differs
	Replicas *int32 // spec.replicas
	Deleting bool
	Blocked  string // what prevents it from growing, to be added to "Scaling up …"
}

// WithUpToDate returns Machines with their UpToDate condition corrected to the current desired
// state: their own controller updates it only a moment later, and clients that wait for
// status.observedGeneration would see conditions for the previous one. upToDate returns nil
// for Machines that are correct.
func WithUpToDate(machines []*clusterv1.Machine, now time.Time, upToDate func(*clusterv1.Machine) *metav1.Condition) []*clusterv1.Machine {
	var out []*clusterv1.Machine
	for i, m := range machines {
		if !conditions.IsTrue(m, clusterv1.MachineUpToDateCondition) {
			continue
		}
		c := upToDate(m)
		if c == nil || c.Status == metav1.ConditionTrue {
			continue
		}
		if out == nil {
			out = slices.Clone(machines)
		}
		again := *m
		conditions.Set(&again, now, *c)
		out[i] = &again
	}
	if out == nil {
		return machines // the usual case
	}
	return out
}

// BlockedBecause is the suffix of a condition's message for blocked actions; empty if
// nothing blocks.
func BlockedBecause(why []string) string {
	if len(why) == 0 {
		return ""
	}
	return blockedBecause + "\n* " + strings.Join(why, "\n* ")
}

const blockedBecause = " is blocked because:"

// IsBlocked reports whether a message contains the suffix from BlockedBecause.
func IsBlocked(message string) bool { return strings.Contains(message, blockedBecause) }

// Want is the desired number of Machines. Until admission or another client has set a
// number, it is the current one.
func (g Group) Want() int {
	if g.Replicas == nil {
		return g.have()
	}
	return int(*g.Replicas)
}

func (g Group) have() int {
	if g.Current == nil {
		return len(g.Machines)
	}
	return int(*g.Current)
}

func (g Group) objects(machines []*clusterv1.Machine) []conditions.Object {
	return conditions.Objects(cmp.Or(g.Kind, "Machine"), machines...)
}

// Conditions returns the conditions of the Machines, and of changes of their number.
func (g Group) Conditions() []metav1.Condition {
	return []metav1.Condition{g.machinesReady(), g.machinesUpToDate(), g.scalingUp(), g.scalingDown(), g.remediating()}
}

func (g Group) machinesReady() metav1.Condition {
	return conditions.Aggregate(g.objects(g.Machines), clusterv1.MachineReadyCondition, clusterv1.MachinesReadyCondition, conditions.AggregateOptions{
		Reasons: conditions.Reasons{Issue: clusterv1.NotReadyReason, Unknown: clusterv1.ReadyUnknownReason, Info: clusterv1.ReadyReason},
		Empty:   metav1.Condition{Status: metav1.ConditionTrue, Reason: clusterv1.NoReplicasReason},
	})
}

// machinesUpToDate counts only Machines that have the UpToDate condition: a new one gets
// it in a moment, and those of a standalone set never do.
func (g Group) machinesUpToDate() metav1.Condition {
	judged := g.where(func(m *clusterv1.Machine) bool { return conditions.Has(m, clusterv1.MachineUpToDateCondition) })
	return conditions.Aggregate(g.objects(judged), clusterv1.MachineUpToDateCondition, clusterv1.MachinesUpToDateCondition, conditions.AggregateOptions{
		Reasons: conditions.Reasons{Issue: clusterv1.NotUpToDateReason, Unknown: clusterv1.UpToDateUnknownReason, Info: clusterv1.UpToDateReason},
		Empty:   metav1.Condition{Status: metav1.ConditionTrue, Reason: clusterv1.NoReplicasReason},
	})
}

func (g Group) scalingUp() metav1.Condition {
	c := metav1.Condition{Type: clusterv1.ScalingUpCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotScalingUpReason}
	have, want := g.have(), g.Want()
	switch {
	case g.Deleting:
	case g.Replicas == nil:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, clusterv1.WaitingForReplicasSetReason, "Waiting for spec.replicas to be set"
	case have < want:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, clusterv1.ScalingUpReason, fmt.Sprintf("Scaling up from %d to %d replicas", have, want)+g.Blocked
	}
	return c
}

func (g Group) scalingDown() metav1.Condition {
	c := metav1.Condition{Type: clusterv1.ScalingDownCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotScalingDownReason}
	have, want := g.have(), g.Want()
	if g.Deleting {
		want = 0
	}
	switch {
	case g.Replicas == nil && !g.Deleting:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, clusterv1.WaitingForReplicasSetReason, "Waiting for spec.replicas to be set"
	case have > want:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, clusterv1.ScalingDownReason, fmt.Sprintf("Scaling down from %d to %d replicas", have, want)
	}
	return c
}

func (g Group) remediating() metav1.Condition {
	unhealthy := g.where(func(m *clusterv1.Machine) bool {
		return conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition)
	})
	if len(unhealthy) == 0 {
		return metav1.Condition{Type: clusterv1.RemediatingCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotRemediatingReason}
	}
	c := conditions.Aggregate(g.objects(unhealthy), clusterv1.MachineOwnerRemediatedCondition, clusterv1.RemediatingCondition, conditions.AggregateOptions{})
	c.Status, c.Reason = metav1.ConditionTrue, clusterv1.RemediatingReason
	return c
}

func (g Group) where(is func(*clusterv1.Machine) bool) []*clusterv1.Machine {
	return slices.DeleteFunc(slices.Clone(g.Machines), func(m *clusterv1.Machine) bool { return !is(m) })
}
