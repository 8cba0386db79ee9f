// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"cmp"
	"slices"
	"strings"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// FailureDomain is where the next machine is created: the failure domain for control
// planes with the fewest machines that are up to date and not being deleted, then with
// the fewest machines at all, then the first by name. Empty if there are none.
func FailureDomain(domains []clusterv1.FailureDomain, machines []*Machine) string {
	counts := map[string][2]int{}
	for _, m := range machines {
		if m.Deleting() {
			continue
		}
		c := counts[m.Spec.FailureDomain]
		c[1]++
		if m.UpToDate {
			c[0]++
		}
		counts[m.Spec.FailureDomain] = c
	}
	names := eligible(domains)
	if len(names) == 0 {
		return ""
	}
	return slices.MinFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[a][0], counts[b][0]), cmp.Compare(counts[a][1], counts[b][1]), strings.Compare(a, b))
	})
}

func eligible(domains []clusterv1.FailureDomain) (names []string) {
	for _, d := range domains {
		if d.ControlPlane != nil && *d.ControlPlane {
			names = append(names, d.Name)
		}
	}
	return names
}

// Leaver is the machine to delete when there is one too many: of the first group below
// that is not empty, the oldest in the failure domain with the most machines of the
// group, then with the most machines at all. A machine in a domain that does not exist,
// or no longer, is deleted first.
//
//	marked by the delete annotation and outdated
//	marked by the delete annotation
//	outdated and not healthy
//	outdated
//	any
func Leaver(domains []clusterv1.FailureDomain, machines []*Machine, managesEtcd bool) *Machine {
	marked := func(m *Machine) bool { return m.marked(clusterv1.DeleteMachineAnnotation) }
	groups := []func(*Machine) bool{
		func(m *Machine) bool { return marked(m) && !m.UpToDate },
		marked,
		func(m *Machine) bool { return !m.UpToDate && len(Unhealthy(m, managesEtcd)) > 0 },
		func(m *Machine) bool { return !m.UpToDate },
		func(*Machine) bool { return true },
	}
	for _, in := range groups {
		var group []*Machine
		for _, m := range machines {
			if in(m) {
				group = append(group, m)
			}
		}
		if len(group) > 0 {
			return fromFullest(eligible(domains), group, machines)
		}
	}
	return nil
}

func fromFullest(domains []string, group, all []*Machine) *Machine {
	rank := func(m *Machine) []int {
		if !slices.Contains(domains, m.Spec.FailureDomain) {
			return []int{len(group) + 1}
		}
		counts := []int{0, 0}
		for i, machines := range [][]*Machine{group, all} {
			for _, other := range machines {
				if other.Spec.FailureDomain == m.Spec.FailureDomain {
					counts[i]++
				}
			}
		}
		return counts
	}
	return slices.MinFunc(group, func(a, b *Machine) int { return cmp.Or(slices.Compare(rank(b), rank(a)), oldest(a, b)) })
}
