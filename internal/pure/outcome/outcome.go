// SPDX-License-Identifier: Apache-2.0

// Package outcome derives what happens to each Machine of a Cluster from what its
// Machines are at several times.
//
// A Machine that exists at first is kept, changed, replaced or deleted. A deleted one
// is replaced if its owner creates one: the first that is deleted by the first that is
// created, and so on.
package outcome

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/conditions"
)

// never is the time of what has not happened.
const never = time.Duration(-1)

// Observations collect what a Cluster's Machines are. The zero value is ready for the
// Machines at first.
type Observations struct {
	machines map[types.UID]*seen
	order    []*seen // in the order of their creation
	groups   map[string]*planv1.Group
	added    int // calls of Add
}

// seen is what is known about a Machine.
type seen struct {
	first, last *clusterv1.Machine
	owner       string
	existed     bool          // from the start
	created     time.Duration // never if it existed
	deleted     time.Duration // when its deletion began
	wave        int           // the call of Add that showed it
	gone        bool
	cause       string
}

// Add adds all Machines of the Cluster as they are after a time, which never
// decreases. They must not be changed afterwards.
func (o *Observations) Add(after time.Duration, machines []*clusterv1.Machine) {
	first := o.machines == nil
	if first {
		o.machines, o.groups = map[types.UID]*seen{}, map[string]*planv1.Group{}
	}
	o.added++
	exists := map[types.UID]bool{}
	available, deleting, outdated, all := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	for _, m := range machines {
		exists[m.UID] = true
		s := o.machines[m.UID]
		if s == nil {
			s = &seen{first: m, owner: Owner(m), existed: first, created: after, deleted: never}
			o.machines[m.UID] = s
			o.order = append(o.order, s)
		}
		s.last = m
		s.observe(after, o.added)
		all[s.owner]++
		switch {
		case !m.DeletionTimestamp.IsZero():
			deleting[s.owner]++
		case conditions.IsTrue(m, clusterv1.MachineAvailableCondition):
			available[s.owner]++
		}
		if OutOfDate(m) {
			outdated[s.owner]++
		}
		o.group(s)
	}
	for id, s := range o.machines {
		if s.gone = !exists[id]; s.gone && s.deleted == never {
			s.deleted, s.wave = after, o.added
		}
	}
	for owner, g := range o.groups {
		if first {
			g.Before, g.AvailableBefore, g.FewestAvailable = all[owner], available[owner], available[owner]
		}
		g.Then, g.Deleting, g.OutOfDate = all[owner], deleting[owner], outdated[owner]
		g.FewestAvailable = min(g.FewestAvailable, available[owner])
		g.MostDeleting = max(g.MostDeleting, deleting[owner])
	}
}

func (o *Observations) group(s *seen) {
	if o.groups[s.owner] == nil {
		_, controlPlane := s.last.Labels[clusterv1.MachineControlPlaneLabel]
		o.groups[s.owner] = &planv1.Group{Owner: s.owner, ControlPlane: controlPlane}
	}
}

// observe records when and why the deletion of a Machine begins.
func (s *seen) observe(after time.Duration, wave int) {
	m := s.last
	if cause := Cause(m); cause != "" || m.DeletionTimestamp.IsZero() {
		s.cause = cause
	}
	if !m.DeletionTimestamp.IsZero() && s.deleted == never {
		s.deleted, s.wave = after, wave
	}
}

// OutOfDate reports whether a Machine waits for its replacement or its update.
func OutOfDate(m *clusterv1.Machine) bool {
	return m.DeletionTimestamp.IsZero() && conditions.IsFalse(m, clusterv1.MachineUpToDateCondition)
}

// Cause is why a Machine is replaced or deleted, by its conditions; empty if they give
// no reason.
func Cause(m *clusterv1.Machine) (cause string) {
	for _, kind := range []string{clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineUpToDateCondition} {
		if c := conditions.Get(m, kind); c != nil && c.Status == metav1.ConditionFalse {
			cause = strings.ReplaceAll(strings.TrimPrefix(c.Message, "* "), "\n* ", "; ")
		}
	}
	return cause
}

// Owner names what creates and deletes a Machine, as "MachineDeployment demo-md-0".
func Owner(m *clusterv1.Machine) string {
	for _, of := range []struct{ label, kind string }{
		{clusterv1.MachineDeploymentNameLabel, "MachineDeployment"}, {clusterv1.MachinePoolNameLabel, "MachinePool"},
	} {
		if name := m.Labels[of.label]; name != "" {
			return of.kind + " " + name
		}
	}
	if ref := metav1.GetControllerOf(m); ref != nil {
		return ref.Kind + " " + ref.Name
	}
	return ""
}

// Groups are the owners of the Machines: control planes first, then by name.
func (o *Observations) Groups() (all []planv1.Group) {
	for _, g := range o.groups {
		all = append(all, *g)
	}
	slices.SortFunc(all, func(a, b planv1.Group) int {
		if a.ControlPlane != b.ControlPlane {
			if a.ControlPlane {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Owner, b.Owner)
	})
	return all
}

// Machines is what happens to each Machine, in the order of Groups, and then in the
// order in which they are deleted or created.
func (o *Observations) Machines() []planv1.Machine {
	waves := o.waves()
	var all []planv1.Machine
	for _, g := range o.Groups() {
		var deleted, created, rest []*seen
		for _, s := range o.order {
			switch {
			case s.owner != g.Owner:
			case s.existed && s.deleted == never, !s.existed && s.deleted != never:
				rest = append(rest, s)
			case s.existed:
				deleted = append(deleted, s)
			default:
				created = append(created, s)
			}
		}
		slices.SortStableFunc(deleted, func(a, b *seen) int { return cmp.Compare(a.wave, b.wave) })
		for i, s := range deleted {
			m := s.machine(planv1.Deleted)
			m.Wave, m.After = 1+slices.Index(waves, s.wave), &metav1.Duration{Duration: s.deleted}
			if m.Cause == "" && g.Then < g.Before {
				m.Cause = fmt.Sprintf("%s scales down from %d to %d", g.Owner, g.Before, g.Then)
			}
			if i < len(created) {
				m.Action, m.By = planv1.Replaced, created[i].first.Name
			}
			all = append(all, m)
		}
		for _, s := range created[min(len(deleted), len(created)):] {
			m := s.machine(planv1.Created)
			m.After = &metav1.Duration{Duration: s.created}
			all = append(all, m)
		}
		for _, s := range rest {
			all = append(all, s.remaining())
		}
	}
	return all
}

func (s *seen) machine(action planv1.Action) planv1.Machine {
	m := planv1.Machine{Name: s.first.Name, Owner: s.owner, Action: action}
	if s.existed {
		m.UID = s.first.UID
	}
	if action == planv1.Deleted || action == planv1.Transient {
		m.Cause = s.cause
	}
	return m
}

// remaining is what happens to a Machine that is neither deleted nor created to stay.
func (s *seen) remaining() planv1.Machine {
	if !s.existed {
		m := s.machine(planv1.Transient)
		m.After = &metav1.Duration{Duration: s.created}
		return m
	}
	if fields := Fields(s.first, s.last); len(fields) > 0 {
		m := s.machine(planv1.Changed)
		m.Fields = fields
		return m
	}
	return s.machine(planv1.Kept)
}

// waves are the calls of Add that showed deletions: those of one call begin at once,
// and those of several at one time follow each other.
func (o *Observations) waves() (all []int) {
	for _, s := range o.order {
		if s.deleted != never && !slices.Contains(all, s.wave) {
			all = append(all, s.wave)
		}
	}
	slices.Sort(all)
	return all
}

// repeats is the number of waves in which Machines that the change has created are
// deleted, from which the change is known never to end.
const repeats = 4

// Repeats reports whether so many Machines were created and deleted again that the
// change is known never to end.
func (o *Observations) Repeats() bool {
	waves, _ := o.transient()
	return len(waves) >= repeats
}

// transient returns when Machines that the change has created were deleted, and how
// many they are.
func (o *Observations) transient() (waves []time.Duration, machines int) {
	for _, s := range o.order {
		if s.existed || s.deleted == never {
			continue
		}
		machines++
		if !slices.Contains(waves, s.deleted) {
			waves = append(waves, s.deleted)
		}
	}
	slices.Sort(waves)
	return waves, machines
}

// Unending returns the period and the cost of a change that still replaces Machines
// that it has created; nil if it does not.
func (o *Observations) Unending() *planv1.Unending {
	waves, machines := o.transient()
	if len(waves) < 2 {
		return nil
	}
	period := (waves[len(waves)-1] - waves[0]) / time.Duration(len(waves)-1)
	return &planv1.Unending{Period: metav1.Duration{Duration: period}, Machines: (machines + len(waves) - 1) / len(waves)}
}

// Settled reports whether no Machine is being deleted or out of date.
func (o *Observations) Settled() bool {
	for _, g := range o.groups {
		if g.Deleting+g.OutOfDate > 0 {
			return false
		}
	}
	return true
}
