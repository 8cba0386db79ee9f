// SPDX-License-Identifier: Apache-2.0

// Package localpool decides which machines a LocalMachinePool creates and deletes, and
// reports the status of the pool.
//
//   - The number of machines is that of the MachinePool. Machines of another template or
//     version of Kubernetes than the pool's are replaced: a new one is created first,
//     and for each new one that is available an old one is deleted. New bootstrap data
//     applies only to machines created later.
//   - A machine that is being deleted counts until it is deleted: its infrastructure may
//     still use resources that the next one needs.
//   - If there are too many, those of an old template are deleted first, then those
//     marked by an annotation, then the unhealthy. A machine without a health report is
//     not unhealthy.
package localpool

import (
	"cmp"
	"fmt"
	"slices"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/pure/localstatus"
	"github.com/capstan-dev/capstan/internal/pure/scaling"
)

// Member is one machine of a pool.
type Member struct {
	Local   *infrav1.LocalMachine
	Machine *clusterv1.Machine // that represents it; nil: it has none yet, or not any longer
}

// Going reports whether the machine is being deleted.
func (m Member) Going() bool {
	return !m.Local.DeletionTimestamp.IsZero() || m.Machine != nil && !m.Machine.DeletionTimestamp.IsZero()
}

// available reports whether the machine has been ready for long enough.
func (m Member) available() bool {
	return !m.Going() && localstatus.Provisioned(m.Local) && m.Machine != nil && conditions.IsTrue(m.Machine, clusterv1.AvailableCondition)
}

func (m Member) marked() bool {
	_, marked := m.Local.Annotations[clusterv1.DeleteMachineAnnotation]
	if m.Machine != nil && !marked {
		_, marked = m.Machine.Annotations[clusterv1.DeleteMachineAnnotation]
	}
	return marked
}

func (m Member) failing() bool {
	return !localstatus.Provisioned(m.Local) || m.Machine == nil || scaling.Failing(m.Machine)
}

// Facts are the input of Plan. They are only values: a stored record gives the same plan
// again.
type Facts struct {
	Want     int
	Template string   // the template of new machines, as Template returns it
	Members  []Member // all of the pool, including those being deleted
	Blocked  bool     // no machine can be created now
	Names    []string // for new machines; Missing returns how many are needed
}

func (f Facts) outdated(m Member) bool {
	return m.Local.Annotations[infrav1.PoolTemplateAnnotation] != f.Template
}

// surge is how many machines above the desired number can exist during a replacement: a
// tenth, and at least one.
func (f Facts) surge() int {
	if !slices.ContainsFunc(f.Members, f.outdated) {
		return 0
	}
	return max(1, f.Want/10)
}

// NewNames implements decisions.Naming.
func (f Facts) NewNames() []string { return f.Names }

// Missing is how many machines Plan creates, if there are names for them.
func (f Facts) Missing() int {
	missing := f.Want
	for _, m := range f.Members {
		if !m.Going() && !f.outdated(m) {
			missing--
		}
	}
	if f.Blocked {
		return 0
	}
	have := len(f.Members)
	return max(0, min(missing, f.Want+f.surge()-have, scaling.Batch(have)))
}

// Plan returns the actions toward the desired number and template of machines. At most
// one batch is created, and one deleted; the next plan continues.
func Plan(f Facts) []scaling.Action {
	have, stay, old, coming := len(f.Members), 0, 0, 0
	for _, m := range f.Members {
		switch {
		case m.Going():
			continue
		case f.outdated(m):
			old++
		case !m.available():
			coming++
		}
		stay++
	}
	why := fmt.Sprintf("have %d, want %d", have, f.Want)
	replacing := fmt.Sprintf("%s, %d of another template", why, old)
	var acts []scaling.Action
	for _, name := range f.Names[:min(len(f.Names), f.Missing())] {
		if old > 0 {
			acts = append(acts, scaling.Create{Name: name, Why: replacing})
		} else {
			acts = append(acts, scaling.Create{Name: name, Why: why})
		}
	}
	gone := 0
	for _, m := range f.inOrder() {
		switch outdated := f.outdated(m); {
		case m.Going():
		case gone == scaling.Batch(have):
			return acts
		case outdated && stay-coming > f.Want:
			acts = append(acts, scaling.Delete{Name: m.Local.Name, Why: replacing})
			stay, gone, old = stay-1, gone+1, old-1
		case !outdated && old == 0 && stay > f.Want:
			acts = append(acts, scaling.Delete{Name: m.Local.Name, Why: why})
			stay, gone = stay-1, gone+1
		}
	}
	return acts
}

// inOrder returns the machines in order of deletion.
func (f Facts) inOrder() []Member {
	rank := func(m Member) int {
		r := 0
		for i, first := range []bool{m.failing(), m.marked(), f.outdated(m)} {
			if !first {
				r += 1 << i
			}
		}
		return r
	}
	return slices.SortedFunc(slices.Values(f.Members), func(a, b Member) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Local.Name, b.Local.Name))
	})
}
