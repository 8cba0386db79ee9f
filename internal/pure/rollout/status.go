// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/pause"
	"github.com/capstan-dev/capstan/internal/pure/machinestatus"
	"github.com/capstan-dev/capstan/internal/pure/scaling"
)

// Status is the input of the status of a MachineDeployment.
type Status struct {
	Deployment *clusterv1.MachineDeployment
	Cluster    *clusterv1.Cluster // nil: it does not exist
	Selector   string
	Sets       []*clusterv1.MachineSet // of the deployment, including those being deleted
	Machines   []*clusterv1.Machine    // of all sets
	BySet      map[types.UID][]*clusterv1.Machine
	Blocked    []string // why no Machine can be created from the templates
	Now        time.Time
	Failed     bool // this reconcile failed: the status is what was read before
}

// Report fills the status of the MachineDeployment.
func Report(s Status) {
	s.Machines = s.evaluated()
	st := &s.Deployment.Status
	n := machinestatus.CountMachines(s.Machines)
	st.Replicas, st.ReadyReplicas, st.AvailableReplicas, st.UpToDateReplicas = &n.Replicas, &n.Ready, &n.Available, &n.UpToDate
	st.Versions = n.Versions(machinestatus.MostOfGroup)
	st.Selector = s.Selector
	st.SetTypedPhase(phaseOf(s, n))
	if !s.Failed {
		st.ObservedGeneration = s.Deployment.Generation
	}
	for _, c := range append(s.group().Conditions(), available(s, n), rollingOut(s), deleting(s), pause.Condition(s.Cluster, s.Deployment)) {
		c.ObservedGeneration = s.Deployment.Generation
		conditions.Set(s.Deployment, s.Now, c)
	}
}

// evaluated are the Machines, evaluated against the current template.
func (s Status) evaluated() []*clusterv1.Machine {
	behind := map[types.UID]*clusterv1.MachineSet{}
	for _, set := range s.Sets {
		if len(s.BySet[set.UID]) > 0 && len(Behind(s.Deployment, set, s.Now)) > 0 {
			behind[set.UID] = set
		}
	}
	return scaling.WithUpToDate(s.Machines, s.Now, func(m *clusterv1.Machine) *metav1.Condition {
		if ref := metav1.GetControllerOfNoCopy(m); ref != nil && behind[ref.UID] != nil {
			return new(UpToDate(s.Deployment, behind[ref.UID], m, s.Now))
		}
		return nil
	})
}

func phaseOf(s Status, n *machinestatus.Counters) clusterv1.MachineDeploymentPhase {
	switch want := int32(s.want()); {
	case s.Deployment.Spec.Replicas == nil:
		return clusterv1.MachineDeploymentPhaseUnknown
	case !s.Deployment.DeletionTimestamp.IsZero() || n.Replicas > want:
		return clusterv1.MachineDeploymentPhaseScalingDown
	case n.Replicas < want:
		return clusterv1.MachineDeploymentPhaseScalingUp
	}
	return clusterv1.MachineDeploymentPhaseRunning
}

func available(s Status, n *machinestatus.Counters) metav1.Condition {
	c := metav1.Condition{Type: clusterv1.MachineDeploymentAvailableCondition}
	if s.Deployment.Spec.Replicas == nil {
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, clusterv1.MachineDeploymentAvailableWaitingForReplicasSetReason, "Waiting for spec.replicas to be set"
		return c
	}
	_, unavailable := Pace(s.Deployment, s.want())
	required := max(0, s.want()-unavailable)
	if int(n.Available) >= required {
		c.Status, c.Reason = metav1.ConditionTrue, clusterv1.MachineDeploymentAvailableReason
		return c
	}
	c.Status, c.Reason = metav1.ConditionFalse, clusterv1.MachineDeploymentNotAvailableReason
	c.Message = fmt.Sprintf("%d available replicas, at least %d required (spec.replicas is %d, %d may be unavailable)", n.Available, required, s.want(), unavailable) + s.blockers()
	if !s.Deployment.DeletionTimestamp.IsZero() {
		c.Message = "Deletion in progress"
	}
	return c
}

func rollingOut(s Status) metav1.Condition {
	c := metav1.Condition{Type: clusterv1.MachineDeploymentRollingOutCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineDeploymentNotRollingOutReason}
	behind := slices.DeleteFunc(slices.Clone(s.Machines), func(m *clusterv1.Machine) bool { return !conditions.IsFalse(m, clusterv1.MachineUpToDateCondition) })
	if len(behind) == 0 {
		return c
	}
	c.Status, c.Reason = metav1.ConditionTrue, clusterv1.MachineDeploymentRollingOutReason
	c.Message = fmt.Sprintf("Rolling out %d not up-to-date replicas", len(behind))
	if len(s.Blocked) > 0 {
		c.Message += scaling.BlockedBecause(s.Blocked)
		return c
	}
	lines := []string{c.Message}
	for _, m := range behind {
		for why := range strings.Lines(conditions.Message(m, clusterv1.MachineUpToDateCondition)) {
			why = "* " + strings.TrimPrefix(strings.TrimSpace(why), "* ")
			if !slices.Contains(lines, why) {
				lines = append(lines, why)
			}
		}
	}
	slices.Sort(lines[1:])
	for _, set := range s.Sets {
		if blocked := scaling.UpdateBlocked(set); blocked != "" {
			lines = append(lines, blocked)
		}
	}
	c.Message = strings.Join(lines, "\n") + s.blockers()
	return c
}

func (s Status) group() scaling.Group {
	g := scaling.Group{Machines: s.Machines, Replicas: s.Deployment.Spec.Replicas, Deleting: !s.Deployment.DeletionTimestamp.IsZero()}
	if s.Cluster == nil {
		g.Blocked = scaling.BlockedBecause([]string{fmt.Sprintf("Cluster %s, named by spec.clusterName, does not exist: create it, or correct the field", s.Deployment.Spec.ClusterName)})
	}
	if len(s.Blocked) > 0 {
		g.Blocked = scaling.BlockedBecause(s.Blocked)
		return g // a MachineSet would report the same
	}
	g.Blocked += s.growing(func(*clusterv1.MachineSet) bool { return true })
	return g
}

// blockers is why no Machine can be created, by the templates or the MachineSets, as
// lines to add to a message; empty if nothing prevents it.
func (s Status) blockers() string {
	if len(s.Blocked) > 0 {
		return "\n* " + strings.Join(s.Blocked, "\n* ")
	}
	return s.growing(func(set *clusterv1.MachineSet) bool {
		return scaling.IsBlocked(conditions.Message(set, clusterv1.MachineSetScalingUpCondition))
	})
}

// growing returns the reports of those MachineSets that grow, as lines to add to a
// message.
func (s Status) growing(which func(*clusterv1.MachineSet) bool) string {
	growing := slices.DeleteFunc(slices.Clone(s.Sets), func(set *clusterv1.MachineSet) bool {
		return !conditions.IsTrue(set, clusterv1.MachineSetScalingUpCondition) || !which(set)
	})
	if len(growing) == 0 {
		return ""
	}
	return "\n" + conditions.Aggregate(conditions.Objects("MachineSet", growing...), clusterv1.MachineSetScalingUpCondition, "", conditions.AggregateOptions{Negative: true}).Message
}

func deleting(s Status) metav1.Condition {
	c := metav1.Condition{Type: clusterv1.MachineDeploymentDeletingCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineDeploymentNotDeletingReason}
	if s.Deployment.DeletionTimestamp.IsZero() {
		return c
	}
	c.Status, c.Reason, c.Message = metav1.ConditionTrue, clusterv1.MachineDeploymentDeletingReason, "Deletion completed"
	if len(s.Sets) > 0 {
		var names []string
		for _, set := range s.Sets {
			names = append(names, set.Name)
		}
		slices.Sort(names)
		c.Message = "Waiting for MachineSets to be deleted: " + conditions.Names(names)
		if n := len(s.Machines); n > 0 {
			c.Message += ", with " + conditions.Count(n, "Machine")
		}
	}
	return c
}

func (s Status) want() int {
	return scaling.Group{Machines: s.Machines, Replicas: s.Deployment.Spec.Replicas}.Want()
}
