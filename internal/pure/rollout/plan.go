// SPDX-License-Identifier: Apache-2.0

// Package rollout decides the number of Machines of each MachineSet of a
// MachineDeployment.
//
// It is pure: no client, no clock, no context. The controller observes, calls Plan, and
// executes the actions.
package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/questions"
	"github.com/capstan-dev/capstan/internal/pure/inplace"
	"github.com/capstan-dev/capstan/internal/pure/machinestatus"
)

// Set is a MachineSet with the counts of its Machines.
type Set struct {
	*clusterv1.MachineSet
	Actual    int // Machines, including those being deleted
	Going     int // Machines being deleted
	Available int // Machines that are available and not being deleted
	// Moved are the Machines that were handed over to it, and are not acknowledged yet.
	Moved []string `json:",omitempty"`
}

// Counted counts the Machines of a MachineSet.
func Counted(set *clusterv1.MachineSet, machines []*clusterv1.Machine) Set {
	s := Set{MachineSet: set, Actual: len(machines)}
	for _, m := range machines {
		if inplace.Moved(m) {
			s.Moved = append(s.Moved, m.Name)
		}
		switch {
		case !m.DeletionTimestamp.IsZero():
			s.Going++
		case machinestatus.IsAvailable(m):
			s.Available++
		}
	}
	return s
}

// Facts are the input of Plan. They are only values: a stored record gives the same plan
// again.
type Facts struct {
	Deployment *clusterv1.MachineDeployment
	Sets       []Set
	Now        time.Time
	// Blocked is why no Machine can be created from the template now, for example
	// because an object that it refers to does not exist; empty when one can.
	Blocked []string
	// Name for a new MachineSet; Lacking reports whether one is needed. It ends in a
	// dash and a random part.
	Name string
	// FieldOwner owns the labels and annotations that the controller writes.
	FieldOwner string
}

// NewNames implements decisions.Naming.
func (f Facts) NewNames() []string { return []string{f.Name} }

// Lacking reports whether Plan creates a MachineSet, if there is a name for it: none
// matches the template, and one may be created.
func (f Facts) Lacking() bool {
	p := newPlanner(f)
	return !p.paused() && len(f.Blocked) == 0 && p.match() == nil
}

// Action is one change to make. String is the text in logs, events and tests.
type Action interface{ fmt.Stringer }

type (
	// Create creates a MachineSet. The caller adds owner and finalizer.
	Create struct {
		Set *clusterv1.MachineSet
		Why string
	}
	// Update changes a MachineSet to Set.
	Update struct {
		Set *clusterv1.MachineSet
		// From is its current spec.replicas.
		From int
		Why  string
	}
	// Delete deletes a MachineSet without Machines.
	Delete struct{ Name, Why string }
)

// String implements Action.
func (a Create) String() string {
	return fmt.Sprintf("create %s with %d replicas: %s", a.Set.Name, *a.Set.Spec.Replicas, a.Why)
}

// String implements Action.
func (a Update) String() string {
	switch to := int(*a.Set.Spec.Replicas); {
	case to > a.From:
		return fmt.Sprintf("scale up %s from %d to %d: %s", a.Set.Name, a.From, to, a.Why)
	case to < a.From:
		return fmt.Sprintf("scale down %s from %d to %d: %s", a.Set.Name, a.From, to, a.Why)
	}
	return fmt.Sprintf("update %s: %s", a.Set.Name, a.Why)
}

// String implements Action.
func (a Delete) String() string { return "delete " + a.Name + ": " + a.Why }

// Result is the decision of Plan.
type Result struct {
	Actions []Action
	// Current is the name of the MachineSet that matches the template; empty when there
	// is none and none may be created.
	Current string
	// Revision of the current MachineSet, for the MachineDeployment to report.
	Revision string
	// RequeueAt is when time alone changes the plan; zero for never.
	RequeueAt time.Time
	// Undecided lists what must be known before the rollout continues.
	Undecided []string `json:",omitempty"`
}

// Planner decides what may be done now.
//
// One MachineSet, the current one, matches the template in all fields that cannot change
// in place; the other fields are written to every MachineSet. If none matches, one is
// created. With RollingUpdate the current one grows as long as the number of Machines
// does not exceed spec.replicas plus maxSurge; the others shrink, first by their Machines that are not available, the oldest first, as
// long as at least spec.replicas minus maxUnavailable stay available, even if each
// deleted Machine were an available one. If that leaves the rollout stuck because of
// Machines that are not available, one of these is deleted anyway. With OnDelete the
// others only shrink as their Machines are deleted, and the current one creates the
// missing ones. While paused nothing is rolled out, and a change of spec.replicas is
// distributed over the MachineSets by their size. While no Machine can be created from
// the template, nothing is created and nothing deleted for it: only a lower
// spec.replicas still shrinks MachineSets. After a rollout, MachineSets without Machines
// are deleted.
//
// With RollingUpdate it asks for each of the others whether its Machines can be updated
// in place. If so, the Machines that it loses are handed over to the current one and
// counted there, and the current one only creates Machines that would still be missing,
// and one more if none may be unavailable. Until that is known, the rollout waits.
var Planner questions.Planner[Facts, Question, Answer, Result] = decide

func decide(f Facts, ask *asker) (Result, error) {
	if f.Deployment.Spec.Replicas == nil {
		return Result{}, nil // any number of Machines could be too few
	}
	p := newPlanner(f)
	p.acknowledge()
	if p.paused() {
		p.spread()
		return p.result(), nil
	}
	onDelete := f.Deployment.Spec.Rollout.Strategy.Type == clusterv1.OnDeleteMachineDeploymentStrategyType
	var undecided []string
	if len(f.Blocked) == 0 && !onDelete {
		undecided = p.askInPlace(ask)
	}
	if len(f.Blocked)+len(undecided) > 0 {
		p.hold()
		r := p.result()
		r.Undecided = undecided
		return r, nil
	}
	if p.chooseCurrent(); p.current == nil {
		p.hold()
		return p.result(), nil
	}
	if onDelete {
		p.decided = true // there is no move to decide
		p.onDelete()
	} else {
		p.growCurrent()
		p.shrinkOthers()
		p.breakDeadlock()
	}
	return p.result(), nil
}

// member is a MachineSet with its desired state.
type member struct {
	Set
	isNew, gone bool // to be created; being deleted
	movable     bool // its Machines can be updated in place
	before      int  // its current spec.replicas
	replicas    int  // its desired spec.replicas
	why         string
}

// size is how many Machines exist or will exist.
func (m *member) size() int { return max(m.replicas, m.Actual) }

func (m *member) scale(to int, why string, args ...any) {
	if to != m.replicas {
		m.replicas, m.why = to, fmt.Sprintf(why, args...)
	}
}

type planner struct {
	Facts
	want                  int
	maxSurge, unavailable int
	members               []*member // the oldest first
	current               *member   // nil: none matches
	decided               bool      // which MachineSets hand Machines over
}

func newPlanner(f Facts) *planner {
	p := &planner{Facts: f, want: int(ptr.Deref(f.Deployment.Spec.Replicas, 0))}
	p.maxSurge, p.unavailable = Pace(f.Deployment, p.want)
	for _, s := range f.Sets {
		m := &member{Set: s, gone: !s.DeletionTimestamp.IsZero()}
		if !m.gone {
			m.before = int(ptr.Deref(s.Spec.Replicas, int32(s.Actual))) // without a number, a MachineSet keeps its Machines
		}
		m.replicas = m.before
		p.members = append(p.members, m)
	}
	slices.SortFunc(p.members, func(a, b *member) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return p
}

func (p *planner) paused() bool { return ptr.Deref(p.Deployment.Spec.Paused, false) }

// others are all MachineSets except for the current one.
func (p *planner) others() []*member {
	return slices.DeleteFunc(slices.Clone(p.members), func(m *member) bool { return m == p.current || m.gone })
}

func sum(members []*member, of func(*member) int) (n int) {
	for _, m := range members {
		n += of(m)
	}
	return n
}
