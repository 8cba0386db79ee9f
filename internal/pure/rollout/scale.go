// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// growCurrent scales the current MachineSet toward spec.replicas.
func (p *planner) growCurrent() {
	c := p.current
	if c.replicas > p.want {
		c.scale(p.want, "want %d", p.want)
		return
	}
	limit := p.want + p.maxSurge
	there := sum(p.members, (*member).size)
	missing := p.want - c.replicas
	if coming := p.coming(); coming > 0 {
		missing -= coming
		if p.unavailable == 0 {
			missing = max(missing, p.want+1-there)
		}
	}
	if grow := min(limit-there, missing); grow > 0 {
		c.scale(c.replicas+grow, "want %d, at most %d at a time", p.want, limit)
	}
}

// budget is how many Machines can still be removed from the other MachineSets.
type budget struct {
	specs     int // so that enough Machines are desired
	available int // so that enough Machines are available
}

// left is how many available Machines a MachineSet is certain to retain: each of those
// that it has yet to delete may be an available one.
func (m *member) left() int { return max(0, m.Available-m.pending()) }

// pending is how many Machines the MachineSet has yet to delete.
func (m *member) pending() int { return max(0, m.Actual-m.Going-m.replicas) }

// missing is how many Machines the MachineSet has yet to create. It may never be able
// to, for example workers of a version that the control plane has left; nothing is lost
// if they are not requested any longer.
func (m *member) missing() int { return max(0, m.replicas-m.Actual) }

// shrinkOthers removes from the other MachineSets the Machines that are no longer
// needed: first as many of each as are not available, which its controller deletes
// first, then the rest.
func (p *planner) shrinkOthers() {
	required := max(0, p.want-p.unavailable)
	b := budget{
		specs:     sum(p.members, func(m *member) int { return m.replicas }) - required - (p.current.replicas - min(p.current.replicas, p.current.Available)),
		available: sum(p.members, (*member).left) - required,
	}
	available := sum(p.members, func(m *member) int { return m.Available })
	others := p.others()
	for _, unavailable := range []bool{true, false} {
		for _, m := range others {
			most := m.replicas
			if unavailable {
				most -= m.Available
			}
			take, missing := min(most, b.specs), m.missing()
			if left := m.left(); m.Available > 0 && left > b.available {
				take = min(take, missing+max(0, b.available))
			}
			if take <= 0 {
				continue
			}
			b.specs -= take
			b.available -= min(max(0, take-missing), m.left())
			why := fmt.Sprintf("%d available, at least %d required", available, required)
			if take <= missing {
				why = "what is not made yet need not be"
			}
			m.scale(m.replicas-take, "%s", why)
		}
	}
}

// breakDeadlock unblocks a rollout that waits for Machines which will never be
// available: when all MachineSets have their desired replicas, and the current one is
// fully available, and nothing changes, one Machine of a MachineSet with unavailable
// ones is deleted. Its controller selects an unhealthy one first.
func (p *planner) breakDeadlock() {
	for _, m := range p.members {
		if m.isNew || m.replicas != m.before || m.Actual != m.replicas {
			return
		}
	}
	if p.current.Available < p.current.replicas {
		return
	}
	for _, m := range p.others() {
		if m.replicas > m.Available {
			m.scale(m.replicas-1, "Machines that are not available hold up the rollout")
			return
		}
	}
}

// onDelete scales the other MachineSets down to their Machines, and the current one up
// to the missing number.
func (p *planner) onDelete() {
	others := p.others()
	for _, m := range others {
		m.scale(min(m.replicas, m.Actual), "its Machines were deleted")
	}
	surplus := sum(others, func(m *member) int { return m.replicas }) - p.want
	for _, m := range others {
		take := min(max(surplus, 0), m.replicas)
		m.scale(m.replicas-take, "want %d", p.want)
		surplus -= take
	}
	c := p.current
	rest := max(0, p.want-sum(slices.DeleteFunc(slices.Clone(p.members), func(m *member) bool { return m == c }), (*member).size))
	if rest < c.replicas {
		// Machines that are being deleted do not make the current ones superfluous.
		rest = min(c.replicas, max(0, p.want-sum(others, func(m *member) int { return m.replicas })))
	}
	c.scale(rest, "want %d, of which others have the rest", p.want)
}

// hold keeps all MachineSets as they are, except for scaling down to a lower
// spec.replicas.
func (p *planner) hold() {
	p.current = p.match()
	if p.want >= sum(p.members, func(m *member) int { return m.replicas }) {
		return
	}
	p.spread()
	for _, m := range p.members {
		m.replicas = min(m.replicas, m.before)
	}
}

// spread distributes a change of spec.replicas over all MachineSets with Machines, each
// by its share, without a rollout. It detects the change from the annotations last
// written to the MachineSets.
func (p *planner) spread() {
	p.current = p.match()
	active := slices.DeleteFunc(slices.Clone(p.members), func(m *member) bool { return m.gone || m.replicas == 0 })
	switch {
	case len(active) == 0 && p.current != nil:
		p.current.scale(p.want, "want %d", p.want)
		return
	case len(active) == 1:
		active[0].scale(p.want, "want %d", p.want)
		return
	case len(active) == 0 || !slices.ContainsFunc(active, p.toldOtherwise):
		return
	}
	total := sum(active, func(m *member) int { return m.replicas })
	change := p.want - total
	if p.want > 0 {
		change += p.maxSurge
	}
	// The largest first: it is affected least by the rounding remainder.
	slices.SortStableFunc(active, func(a, b *member) int { return -cmp.Compare(a.replicas, b.replicas) })
	rest := change
	for _, m := range active {
		share := max(-m.replicas, m.replicas*change/total)
		rest -= share
		m.scale(m.replicas+share, "want %d, while paused", p.want)
	}
	for _, m := range active {
		share := max(-m.replicas, rest)
		rest -= share
		m.scale(m.replicas+share, "want %d, while paused", p.want)
	}
}

func (p *planner) toldOtherwise(m *member) bool {
	told, err := strconv.Atoi(m.Annotations[clusterv1.DesiredReplicasAnnotation])
	return err == nil && told != p.want
}
