// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"strings"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/questions"
	"github.com/capstan-dev/capstan/internal/pure/inplace"
)

// Question is whether the Machines of a MachineSet can be updated in place to match the
// MachineDeployment.
type Question struct {
	From string `json:"from"` // name of the MachineSet
}

// Answer is the answer, or why there is none.
type Answer struct {
	inplace.Answer
	Failure *questions.Failure `json:"failure,omitempty"`
}

// moveMarks are annotations of MachineSets that name the sender and the recipient of
// Machines.
var moveMarks = []string{
	clusterv1.MachineSetMoveMachinesToMachineSetAnnotation,
	clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation,
	clusterv1.AcknowledgedMoveAnnotation,
}

type asker = questions.Asker[Question, Answer]

// Successor is the MachineSet to which Machines are moved by an update in place: the
// current one, or the one that Plan creates; nil if there can be none.
func (f Facts) Successor() *clusterv1.MachineSet {
	p := newPlanner(f)
	if p.chooseCurrent(); p.current == nil {
		return nil
	}
	return p.desired(p.current, p.revision())
}

// acknowledge counts Machines toward the MachineSet to which they were handed over.
// Until it does, that MachineSet does not change them.
func (p *planner) acknowledge() {
	for _, m := range p.members {
		if m.gone {
			continue
		}
		counted := inplace.Names(m.Annotations[clusterv1.AcknowledgedMoveAnnotation])
		fresh := slices.DeleteFunc(slices.Clone(m.Moved), func(name string) bool { return slices.Contains(counted, name) })
		if len(fresh) > 0 {
			m.scale(m.replicas+len(fresh), "it takes over %s", strings.Join(fresh, ", "))
		}
	}
}

// askInPlace determines which MachineSets hand their Machines over. It returns what is
// not known yet.
func (p *planner) askInPlace(ask *asker) (undecided []string) {
	current := p.match()
	for _, m := range p.members {
		if m == current || m.gone || m.replicas+m.Actual == 0 || !p.similar(m) {
			continue
		}
		a, known := ask.Ask(Question{From: m.Name})
		switch {
		case !known:
			undecided = append(undecided, fmt.Sprintf("it is not known yet whether Machines of MachineSet %s can be updated in place", m.Name))
		case a.Failure != nil:
			undecided = append(undecided, fmt.Sprintf("it is not known whether Machines of MachineSet %s can be updated in place: %v", m.Name, a.Failure))
		default:
			m.movable = a.Possible
		}
	}
	p.decided = len(undecided) == 0
	return undecided
}

// similar reports whether an update in place is an option: the Machines refer to objects
// of the same kinds, and new ones are not due because of spec.rollout.after.
func (p *planner) similar(m *member) bool {
	have, want := essenceOf(m.Spec.Template), essenceOf(p.Deployment.Spec.Template)
	return !Overdue(p.Deployment.Spec.Rollout.After, m.CreationTimestamp, p.Now) &&
		len(Differences(m.Spec.Template, p.Deployment.Spec.Template)) > 0 &&
		have.Infrastructure.GroupKind() == want.Infrastructure.GroupKind() &&
		have.ConfigRef.GroupKind() == want.ConfigRef.GroupKind() && want.ConfigRef.IsDefined()
}

// coming is how many Machines are still to be handed over.
func (p *planner) coming() int {
	return sum(p.members, func(m *member) int {
		if !m.movable || m == p.current {
			return 0
		}
		return max(m.replicas, m.Actual-m.Going)
	})
}

// moves sets the annotations that name the sender and the recipient of Machines, and the
// Machines that were counted. Without a new decision, the previous one stays.
func (p *planner) moves(m *member, out map[string]string) {
	if len(m.Moved) > 0 {
		out[clusterv1.AcknowledgedMoveAnnotation] = inplace.List(m.Moved)
	}
	if !p.decided {
		for _, key := range moveMarks[:2] {
			if v, ok := m.Annotations[key]; ok {
				out[key] = v
			}
		}
		return
	}
	var senders []string
	for _, other := range p.members {
		if other.movable && other != p.current {
			senders = append(senders, other.Name)
		}
	}
	switch {
	case m == p.current && len(senders) > 0:
		out[clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation] = inplace.List(senders)
	case m.movable && m != p.current && p.current != nil:
		out[clusterv1.MachineSetMoveMachinesToMachineSetAnnotation] = p.current.Name
	}
}

// inOrder are the members in the order of their writes: the recipient of Machines before
// the senders, which check that it receives.
func (p *planner) inOrder() []*member {
	if !p.decided || p.coming() == 0 {
		return p.members
	}
	return append([]*member{p.current}, slices.DeleteFunc(slices.Clone(p.members), func(m *member) bool { return m == p.current })...)
}
