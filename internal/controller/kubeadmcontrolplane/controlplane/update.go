// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"slices"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/questions"
	"github.com/capstan-dev/capstan/internal/pure/inplace"
)

// Update changes a machine in place.
type Update struct {
	Machine *Machine
	Why     string
}

// String implements Action.
func (a Update) String() string { return "update " + a.Machine.Name + " in place: " + a.Why }

// Question is whether a machine can be updated in place to match the spec.
type Question struct {
	Machine string `json:"machine"`
}

// Reply is the answer, or why there is none.
type Reply struct {
	inplace.Answer
	Failure *questions.Failure `json:"failure,omitempty"`
}

// Decision is the one change to make now, and what blocks it.
type Decision struct {
	Action  Action // nil: none
	Blocked []string
}

// Planner decides as Plan does, except for a rollout: an outdated machine that would be
// deleted is updated in place instead, if an extension can do that. The extension is
// asked only when all machines are healthy, and only while fewer machines than desired
// are up to date. A machine whose update has started, but is not written completely, has
// precedence over everything else.
var Planner questions.Planner[Facts, Question, Reply, Decision] = decide

func decide(f Facts, ask *questions.Asker[Question, Reply]) (Decision, error) {
	var d Decision
	if m := f.updating(); m != nil {
		d.Action = Delete{m, "its update in place was started and cannot be continued"}
		d.Blocked = f.objections(m)
		if f.Workload.Connected { // joining machines must find their configuration first
			d.askFor(m, "its update in place was started", ask)
		}
	} else if d.Action, d.Blocked = Plan(f); len(d.Blocked) == 0 {
		if a, is := d.Action.(Delete); is && f.mayUpdate(a.Machine) {
			d.askFor(a.Machine, a.Why, ask)
		}
	}
	if a, is := d.Action.(Delete); is && len(f.Machines) == 1 { // admission cannot refuse each way to this state
		d.Blocked = append(d.Blocked, fmt.Sprintf("Machine %s is the only one: set spec.rollout.strategy.rollingUpdate.maxSurge to 1, so that another one joins first", a.Machine.Name))
	}
	return d, nil
}

// askFor changes the decision to an update in place, if that is possible.
func (d *Decision) askFor(m *Machine, why string, ask *questions.Asker[Question, Reply]) {
	a, known := ask.Ask(Question{Machine: m.Name})
	switch {
	case !known:
		d.Blocked = append(d.Blocked, fmt.Sprintf("it is not known yet whether Machine %s can be updated in place", m.Name))
	case a.Failure != nil:
		d.Blocked = append(d.Blocked, fmt.Sprintf("it is not known whether Machine %s can be updated in place: %v", m.Name, a.Failure))
	case a.Possible:
		*d = Decision{Action: Update{m, why}}
	}
}

// updating is a machine whose update has started and whose desired state is not written
// completely.
func (f Facts) updating() *Machine {
	for _, m := range f.Machines {
		if inplace.InProgress(m) && !inplace.Pending(m.Machine) && !m.Deleting() {
			return m
		}
	}
	return nil
}

// mayUpdate reports whether an update in place is an option for an outdated machine that
// would be deleted otherwise.
func (f Facts) mayUpdate(m *Machine) bool {
	kcp := f.ControlPlane
	upToDate := 0
	for _, other := range f.Machines {
		if other.UpToDate && !other.Deleting() {
			upToDate++
		}
	}
	return !m.UpToDate && upToDate < int(*kcp.Spec.Replicas) && m.Config != nil && m.Source != nil &&
		!inplace.InProgress(m) && !m.marked(clusterv1.DeleteMachineAnnotation) && !m.marked(clusterv1.RemediateMachineAnnotation) &&
		!slices.ContainsFunc(dueReasons, func(why string) bool { return slices.Contains(m.Why, why) }) &&
		len(f.objections(nil)) == 0
}

// busy reports whether an update in place blocks actions for leaver, or for a new
// machine if that is nil. A failed update blocks all others, which would fail the same
// way, until the spec changes.
func busy(m, leaver *Machine) bool {
	failed := conditions.Reason(m.Reported, clusterv1.MachineUpdatingCondition) == clusterv1.MachineInPlaceUpdateFailedReason
	switch {
	case !inplace.InProgress(m):
		return false
	case m == leaver:
		return inplace.Pending(m.Machine) && !failed
	}
	return !failed || m.UpToDate
}

// ConfigInPlace is the desired bootstrap config of an existing machine: one that ran
// kubeadm init retains that form.
func ConfigInPlace(kcp *controlplanev1.KubeadmControlPlane, current bootstrapv1.KubeadmConfigSpec) bootstrapv1.KubeadmConfigSpec {
	return ConfigSpec(kcp, ranInit(current))
}
