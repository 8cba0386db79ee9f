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

// Group is what has Machines: a MachineSet, a MachineDeployment or a MachinePool.
type Group struct {
	Machines []*clusterv1.Machine
	Kind     string // of what they stand for; empty for Machine
	Current  *int32 // how many there are, if that is another number
	Replicas *int32 // spec.replicas
	Deleting bool
	Blocked  string // what keeps it from growing, to be added to "Scaling up …"
}

// Judged are Machines, those of them that are to be up to date corrected by what is wanted
// now: their own controller judges them a moment later, and who waits for
// status.observedGeneration would believe what they say of what was wanted before. judge
// returns nil for those that are right.
func Judged(machines []*clusterv1.Machine, now time.Time, judge func(*clusterv1.Machine) *metav1.Condition) []*clusterv1.Machine {
	var out []*clusterv1.Machine
	for i, m := range machines {
		if !conditions.IsTrue(m, clusterv1.MachineUpToDateCondition) {
			continue
		}
		c := judge(m)
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
		return machines // as nearly always
	}
	return out
}

// BlockedBecause is what a condition adds to what it would do; nothing if nothing
// keeps it from that.
func BlockedBecause(why []string) string {
	if len(why) == 0 {
		return ""
	}
	return blockedBecause + "\n* " + strings.Join(why, "\n* ")
}

const blockedBecause = " is blocked because:"

// IsBlocked reports whether a message has what BlockedBecause adds.
func IsBlocked(message string) bool { return strings.Contains(message, blockedBecause) }

// Want is how many Machines there shall be. Until admission or somebody else
// has set a number, it is as many as there are.
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

// Conditions tells of the Machines, and of how their number changes.
func (g Group) Conditions() []metav1.Condition {
	return []metav1.Condition{g.machinesReady(), g.machinesUpToDate(), g.scalingUp(), g.scalingDown(), g.remediating()}
}

func (g Group) machinesReady() metav1.Condition {
	return conditions.Aggregate(g.objects(g.Machines), clusterv1.MachineReadyCondition, clusterv1.MachinesReadyCondition, conditions.AggregateOptions{
		Reasons: conditions.Reasons{Issue: clusterv1.NotReadyReason, Unknown: clusterv1.ReadyUnknownReason, Info: clusterv1.ReadyReason},
		Empty:   metav1.Condition{Status: metav1.ConditionTrue, Reason: clusterv1.NoReplicasReason},
	})
}

// machinesUpToDate looks only at Machines that somebody has judged: a new one is
// judged in a moment, and those of a standalone set never are.
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
