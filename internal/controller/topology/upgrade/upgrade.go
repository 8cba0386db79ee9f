// SPDX-License-Identifier: Apache-2.0

// Package upgrade decides which version each part of a Cluster with a topology gets
// next, which hooks are called for it, and what waits.
//
// The control plane is upgraded first, in the Steps of a Way. A step starts when
// the control plane runs the previous version, no group is upgrading, and the workers
// have reached all versions at which the plan stops for them. Then groups follow, as
// many of a kind at a time as the Cluster permits, unless annotations delay them. A new
// group is created when the control plane is at the target.
//
// Hooks are called in this order:
//
//   - BeforeClusterCreate, until the Cluster refers to its objects;
//     AfterControlPlaneInitialized, once the control plane answers.
//   - BeforeClusterUpgrade, once, after annotations that hold it are removed. If
//     upgrade-step is set, it has permitted the upgrade.
//   - For each step BeforeControlPlaneUpgrade, and when the control plane is upgraded,
//     AfterControlPlaneUpgrade; where workers stop, BeforeWorkersUpgrade and, when all
//     are upgraded, AfterWorkersUpgrade.
//   - AfterClusterUpgrade, when everything is at the target.
//
// A hook that must still be called is marked in pending-hooks. Marks, and their step,
// are stored in one write, before the step is taken; the mark of a hook that permitted
// to continue is removed in the write that stores what follows. So after a crash at any
// point, hooks are called again rather than omitted. A step that was stored and never
// taken is detected from the version of the control plane: its marks are removed, and
// the decision is made again. AfterClusterUpgrade is marked when a step is known to be
// taken; without that mark, an upgrade whose target is reverted ends without any effect.
//
// A part that waits for an upgrade stays unchanged, also on its way to a version before
// the target: its machines are replaced once for each step, at the step's version. A
// part that is upgrading to the target can be corrected, so that a stuck upgrade can be
// fixed; so can a step, whose version has to be made the target for that.
//
// Steps are the versions that an upgrade goes through, computed again each time from
// the current versions.
//
//   - The control plane is upgraded one minor version at a time. If a ClusterClass lists
//     versions, these are used: the last of each further minor. An extension can provide
//     the list instead; without either, an upgrade goes at most to the next minor.
//   - Workers are upgraded where the control plane stops for them: by default as rarely
//     as possible, because they can be three minor versions behind.
//   - Versions that differ only in their build metadata are different versions; only the
//     list of the class defines their order.
package upgrade

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// planner builds one plan.
type planner struct {
	Facts
	*Asker
	pending []string
	steps   Steps
	lowest  string // version of the workers; "" without any
	stop    bool   // a hook blocks, or has not answered yet: nothing more starts
	goes    bool   // groups may be upgraded to the version of the control plane
	grows   bool   // groups may be created at the target, if the control plane is provisioned
	out     Plan
}

// Next decides. The plan is always safe to execute, even with an error or without
// answers: it contains no step that has to wait for them.
func Next(f Facts, ask *Asker) (Plan, error) {
	p := &planner{Facts: f, Asker: ask, pending: slices.Clone(f.Pending)}
	for i := range p.Workers {
		if p.Workers[i].Version == "" { // a user removed it
			p.Workers[i].Version = f.ControlPlane.Version
		}
	}
	p.out.Step = f.Step
	err := p.controlPlane()
	p.workers()
	p.end()
	slices.Sort(p.pending)
	p.out.Pending = slices.Compact(p.pending)
	return p.out, err
}

func (p *planner) controlPlane() error {
	cp := p.ControlPlane
	p.out.ControlPlane = Decision{cp.Version, Current}
	if p.Creating {
		if !p.asks(Question{Hook: BeforeClusterCreate}) {
			p.out.Wait = true
			return nil
		}
		p.mark(AfterControlPlaneInitialized)
	}
	if p.Initialized && p.marked(AfterControlPlaneInitialized) {
		if _, known := p.Ask(Question{Hook: AfterControlPlaneInitialized}); known {
			p.unmark(AfterControlPlaneInitialized)
		} else {
			p.stop = true
		}
	}
	if !cp.Exists || cp.Version == "" {
		p.out.ControlPlane.Version = p.Target
		p.grows = !p.stop
		return nil
	}
	if cp.Version != p.Target && cp.Reported != "" {
		p.out.ControlPlane.State = PendingUpgrade
	}
	if p.stop {
		return nil
	}
	if err := p.plan(); err != nil || p.stop {
		return err
	}
	p.forget()
	if next := p.next(); next != cp.Version {
		p.out.ControlPlane = Decision{next, Upgrade}
		p.grows, p.goes = false, false
	}
	return nil
}

// plan computes the versions ahead.
func (p *planner) plan() error {
	way, err := p.way()
	if err == nil && way.Needed() {
		p.steps, err = p.ahead(way)
	}
	if err != nil {
		p.stop, p.steps = true, Steps{}
	}
	p.lowest = way.Workers
	p.out.ControlPlaneUpgrades, p.out.WorkersUpgrades = p.steps.ControlPlane, p.steps.Workers
	return err
}

// way is the start and the target of the upgrade.
func (p *planner) way() (Way, error) {
	if err := CheckVersion(p.Target); err != nil {
		return Way{}, fmt.Errorf("spec.topology.version: %w", err)
	}
	if err := CheckVersion(p.ControlPlane.Version); err != nil {
		return Way{}, fmt.Errorf("%s: spec.version: %w", p.ControlPlane.Kind, err)
	}
	var versions []string
	for _, g := range p.Workers {
		if !g.Exists {
			continue
		}
		if err := CheckVersion(g.Version); err != nil {
			return Way{}, fmt.Errorf("%s %s: spec.template.spec.version: %w", g.Kind, g.Object, err)
		}
		versions = append(versions, g.Version)
	}
	return NewWay(p.ControlPlane.Version, versions, p.Target), nil
}

// ahead are the steps of the way, nothing until an extension has answered.
func (p *planner) ahead(way Way) (Steps, error) {
	if p.PlanExtension == "" {
		steps, err := StepsFromClass(way, p.Versions)
		if err != nil {
			return steps, err
		}
		return CompleteSteps(way, steps)
	}
	a, known := p.Ask(Question{Hook: GenerateUpgradePlan, From: way.ControlPlane, FromWorkers: way.Workers, To: way.Target})
	if !known {
		p.stop = true
		return Steps{}, nil
	}
	steps, err := CompleteSteps(way, Steps{ControlPlane: a.ControlPlane, Workers: a.Workers})
	if err != nil {
		err = fmt.Errorf("%s of %s: %w", GenerateUpgradePlan, p.PlanExtension, err)
	}
	return steps, err
}

// forget drops a step that was decided and stored, but never taken: the decision is made
// again, so that no hook reports the end of a step that never started.
func (p *planner) forget() {
	cp := p.ControlPlane.Version
	if p.Step == "" || p.Step == cp {
		return
	}
	// A step behind the control plane was taken: Cluster API stores it afterwards.
	if !Older(p.Step, cp) {
		p.unmark(AfterControlPlaneUpgrade, BeforeWorkersUpgrade, AfterWorkersUpgrade)
	}
	p.out.Step = cp
}

// next returns the next version of the control plane.
func (p *planner) next() string {
	cp := p.ControlPlane
	if p.marked(AfterControlPlaneUpgrade) { // a step was taken
		p.mark(AfterClusterUpgrade)
	}
	if cp.Reported == "" || cp.Upgrading {
		p.grows = cp.Reported == ""
		return cp.Version
	}
	if p.marked(AfterControlPlaneUpgrade) && !p.passes(AfterControlPlaneUpgrade, "", cp.Version) {
		return cp.Version
	}
	if !p.workersMayGo() {
		return cp.Version
	}
	if p.marked(AfterWorkersUpgrade) && !p.passes(AfterWorkersUpgrade, "", cp.Version) {
		return cp.Version
	}
	if cp.Version == p.Target || len(p.steps.ControlPlane) == 0 || !p.begins() {
		return cp.Version
	}
	next := p.steps.ControlPlane[0]
	if !p.passes(BeforeControlPlaneUpgrade, cp.Version, next) {
		return cp.Version
	}
	p.mark(AfterControlPlaneUpgrade)
	if p.due(next) {
		p.mark(BeforeWorkersUpgrade, AfterWorkersUpgrade)
	}
	p.out.Step = next
	return next
}

// due reports whether the control plane waits at a version for the workers.
func (p *planner) due(at string) bool { return len(p.steps.Workers) > 0 && p.steps.Workers[0] == at }

// workersMayGo permits workers to be upgraded to the version of the control plane, if it
// is their turn, and reports whether all have been.
func (p *planner) workersMayGo() bool {
	cp := p.ControlPlane.Version
	due := p.due(cp)
	switch {
	case due && !p.marked(AfterWorkersUpgrade): // their plan changed after the control plane was upgraded
		p.mark(BeforeWorkersUpgrade, AfterWorkersUpgrade)
	case !due && p.marked(BeforeWorkersUpgrade): // they are upgraded, or their plan changed
		p.unmark(BeforeWorkersUpgrade, AfterWorkersUpgrade)
	}
	if p.marked(BeforeWorkersUpgrade) && !p.passes(BeforeWorkersUpgrade, p.lowest, cp) {
		return false
	}
	p.goes, p.grows = due, true
	return !due && !slices.ContainsFunc(p.Workers, func(g Group) bool { return g.Exists && g.Upgrading })
}

// begins starts an upgrade, unless one has started.
func (p *planner) begins() bool {
	if p.out.Step != "" || p.marked(AfterClusterUpgrade) {
		return true
	}
	if len(p.Annotations) > 0 {
		text := "annotation %s is set"
		if len(p.Annotations) > 1 {
			text = "annotations %s are set"
		}
		p.blocks(BeforeClusterUpgrade, fmt.Sprintf(text, strings.Join(p.Annotations, ", ")), 0)
		return false
	}
	if !p.passes(BeforeClusterUpgrade, p.ControlPlane.Version, p.Target) {
		return false
	}
	p.out.Step = p.ControlPlane.Version
	return true
}

// workers decides for each group.
func (p *planner) workers() {
	p.out.Workers = map[GroupKey]Decision{}
	cp := p.ControlPlane
	busy := map[string]int{} // how many groups of a kind upgrade
	for _, g := range p.Workers {
		if g.Exists && g.Upgrading {
			busy[g.Kind]++
		}
	}
	held := map[string]bool{}
	for _, g := range p.Workers {
		if !g.Wanted {
			continue
		}
		held[g.Kind] = held[g.Kind] || g.Held
		d := Decision{g.Version, PendingUpgrade}
		switch {
		case !g.Exists && p.grows && p.out.ControlPlane.Version == p.Target:
			d = Decision{p.Target, Current}
		case !g.Exists:
			d = Decision{p.Target, PendingCreation}
		case g.Version == p.Target, Older(p.Target, g.Version):
			d.State = Current
		case g.Deferred || held[g.Kind]:
			d.State = Deferred
		case p.goes && g.Version != cp.Version && !Older(cp.Version, g.Version) && busy[g.Kind] < p.Concurrency:
			d = Decision{cp.Version, Upgrade}
			busy[g.Kind]++
		}
		p.out.Workers[g.Key()] = d
	}
}

// end ends an upgrade when all parts are at the target.
func (p *planner) end() {
	if p.stop || !p.grows || !p.ControlPlane.Exists || p.ControlPlane.Reported == "" || p.marked(BeforeWorkersUpgrade) || p.marked(AfterWorkersUpgrade) {
		return
	}
	if p.out.ControlPlane != (Decision{p.Target, Current}) {
		return
	}
	for _, g := range p.Workers {
		if g.Upgrading || g.Wanted && p.out.Workers[g.Key()].State != Current {
			return
		}
	}
	if !p.marked(AfterClusterUpgrade) || p.passes(AfterClusterUpgrade, "", p.Target) {
		p.out.Step = ""
	}
}

// passes calls a hook, and removes its mark when the hook permits to continue.
func (p *planner) passes(hook, from, to string) bool {
	q := Question{Hook: hook, From: from, To: to}
	if hook != AfterClusterUpgrade {
		q.ControlPlaneUpgrades, q.WorkersUpgrades = strings.Join(p.steps.ControlPlane, ","), strings.Join(p.steps.Workers, ",")
	}
	if !p.asks(q) {
		return false
	}
	p.unmark(hook)
	return true
}

func (p *planner) asks(q Question) bool {
	if p.stop {
		return false
	}
	a, known := p.Ask(q)
	switch {
	case !known:
		p.stop = true
	case a.RetryAfter > 0:
		p.blocks(q.Hook, a.Message, a.RetryAfter)
	}
	return !p.stop
}

func (p *planner) blocks(hook, message string, after time.Duration) {
	p.stop = true
	p.out.Blocking = append(p.out.Blocking, Blocking{hook, message})
	p.out.RetryAfter = after
}

func (p *planner) marked(hook string) bool { return slices.Contains(p.pending, hook) }

func (p *planner) mark(hooks ...string) { p.pending = append(p.pending, hooks...) }

func (p *planner) unmark(hooks ...string) {
	p.pending = slices.DeleteFunc(p.pending, func(h string) bool { return slices.Contains(hooks, h) })
}
