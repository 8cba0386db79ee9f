// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
)

// Result is what happens to the Machines of a Cluster, in a form that can be compared:
// names of new Machines and times are not in it.
type Result struct {
	Fates   map[string]string // of the Machines that existed, by name: kept, changed or gone
	Created map[string]int    // that stay, by owner
	Order   [][]string        // of the deletions of Machines that existed: waves, whose names are sorted
	// Fewest are the available Machines at any time, by MachineDeployment. A control
	// plane deletes a machine when it has seen that the new one is healthy, and the
	// condition Available of that follows a moment later.
	Fewest map[string]int
	// Pools are the replicas of MachinePools that change, by name; none if only Machines
	// were observed.
	Pools map[string]string
}

// ResultOf is what a plan or an observation says.
func ResultOf(c planv1.Cluster) Result {
	r := Result{Fates: map[string]string{}, Created: map[string]int{}, Fewest: map[string]int{}, Pools: map[string]string{}}
	for _, p := range c.Pools {
		r.Pools[p.Name] = fmt.Sprintf("%d replicas, then %d", p.Before, p.Then)
	}
	for _, g := range c.Groups {
		if !g.ControlPlane {
			r.Fewest[g.Owner] = g.FewestAvailable
		}
	}
	var deleted []planv1.Machine
	for _, m := range c.Machines {
		switch m.Action {
		case planv1.Created:
			r.Created[m.Owner]++
		case planv1.Replaced, planv1.Deleted:
			if m.Action == planv1.Replaced {
				r.Created[m.Owner]++
			}
			r.Fates[m.Name] = "gone"
			deleted = append(deleted, m)
		case planv1.Changed, planv1.Kept:
			r.Fates[m.Name] = strings.ToLower(string(m.Action))
		}
	}
	slices.SortFunc(deleted, func(a, b planv1.Machine) int {
		return cmp.Or(cmp.Compare(a.Wave, b.Wave), cmp.Compare(a.Name, b.Name))
	})
	for i, m := range deleted {
		if i == 0 || m.Wave != deleted[i-1].Wave {
			r.Order = append(r.Order, nil)
		}
		last := &r.Order[len(r.Order)-1]
		*last = append(*last, m.Name)
	}
	return r
}

// Differences are sentences about how what happened differs from what was predicted, the
// most important ones first. The fewest available Machines count only if there were
// fewer.
func Differences(predicted, happened Result) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(merge(predicted.Fates, happened.Fates))) {
		want, got := cmp.Or(predicted.Fates[name], "unknown"), cmp.Or(happened.Fates[name], "unknown")
		if want != got {
			all = append(all, fmt.Sprintf("Machine %s: %s in the plan, and %s", name, want, got))
		}
	}
	for _, owner := range slices.Sorted(maps.Keys(merge(predicted.Created, happened.Created))) {
		if want, got := predicted.Created[owner], happened.Created[owner]; want != got {
			all = append(all, fmt.Sprintf("%s: %d new Machines in the plan, and %d", owner, want, got))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(happened.Pools)) {
		if want, got := cmp.Or(predicted.Pools[name], "unchanged"), happened.Pools[name]; want != got {
			all = append(all, fmt.Sprintf("MachinePool %s: %s in the plan, and %s", name, want, got))
		}
	}
	if len(all) == 0 {
		all = append(all, outOfOrder(predicted.Order, slices.Concat(happened.Order...))...)
	}
	for _, owner := range slices.Sorted(maps.Keys(predicted.Fewest)) {
		if got, known := happened.Fewest[owner]; known && got < predicted.Fewest[owner] {
			all = append(all, fmt.Sprintf("%s: at least %d Machines available in the plan, and %d", owner, predicted.Fewest[owner], got))
		}
	}
	return all
}

// outOfOrder returns a sentence about the first wave of which other Machines were deleted.
// The deletions of one wave begin at once: their order is not predicted.
func outOfOrder(waves [][]string, happened []string) []string {
	for _, wave := range waves {
		n := min(len(wave), len(happened))
		next := happened[:n]
		for _, name := range next {
			if !slices.Contains(wave, name) {
				late := wave[slices.IndexFunc(wave, func(name string) bool { return !slices.Contains(next, name) })]
				return []string{fmt.Sprintf("Machine %s: next to be deleted in the plan, and it was %s", late, name)}
			}
		}
		happened = happened[n:]
	}
	return nil
}

func merge[V any](a, b map[string]V) map[string]V {
	all := map[string]V{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}
