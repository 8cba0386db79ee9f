// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Selection is the relation of a MachineHealthCheck to the Machines of its Cluster.
type Selection struct {
	Targets []*clusterv1.Machine // to check, by name
	Others  []Other              // that another check covers
}

// Other is a Machine that is selected, but checked by an older check.
type Other struct{ Machine, Check string }

// Select selects Machines among those of a Cluster; checks are all of its
// MachineHealthChecks.
func Select(check *clusterv1.MachineHealthCheck, machines []*clusterv1.Machine, checks []*clusterv1.MachineHealthCheck) (s Selection, err error) {
	mine, err := selectorOf(check)
	if err != nil {
		return s, err
	}
	elders := eldersOf(check, checks)
	machines = slices.Clone(machines)
	slices.SortFunc(machines, func(a, b *clusterv1.Machine) int { return cmp.Compare(a.Name, b.Name) })
	for _, m := range machines {
		set := labels.Set(m.Labels)
		elder := slices.IndexFunc(elders, func(e elder) bool { return e.selector.Matches(set) })
		switch selected := mine.Matches(set) && !left(m); {
		case selected && elder < 0:
			s.Targets = append(s.Targets, m)
		case selected:
			s.Others = append(s.Others, Other{m.Name, elders[elder].name})
		}
	}
	return s, nil
}

// left reports whether a user excluded a Machine from remediation.
func left(m metav1.Object) bool {
	_, paused := m.GetAnnotations()[clusterv1.PausedAnnotation]
	_, skipped := m.GetAnnotations()[clusterv1.MachineSkipRemediationAnnotation]
	return paused || skipped
}

type elder struct {
	name     string
	selector labels.Selector
}

// eldersOf are the checks that precede one: older ones, and of the same age those with a
// lower name. A check that only reports neither precedes others nor is preceded.
func eldersOf(check *clusterv1.MachineHealthCheck, checks []*clusterv1.MachineHealthCheck) (elders []elder) {
	if ReportsOnly(check) {
		return nil
	}
	for _, c := range checks {
		before := cmp.Or(c.CreationTimestamp.Compare(check.CreationTimestamp.Time), cmp.Compare(c.Name, check.Name)) < 0
		if !before || ReportsOnly(c) || !c.DeletionTimestamp.IsZero() {
			continue
		}
		selector, err := selectorOf(c)
		if err != nil {
			continue // it checks no Machine, and reports that
		}
		elders = append(elders, elder{c.Name, selector})
	}
	return elders
}

// Selects reports whether a check selects a Machine, or did.
func Selects(check *clusterv1.MachineHealthCheck, m *clusterv1.Machine) bool {
	return selects(check, m) || slices.Contains(check.Status.Targets, m.Name)
}

func selects(check *clusterv1.MachineHealthCheck, m *clusterv1.Machine) bool {
	selector, err := selectorOf(check)
	return err == nil && selector.Matches(labels.Set(m.Labels))
}

// selectorOf is the selector of a check. An empty selector would select every Machine of
// the Cluster, and therefore selects none.
func selectorOf(check *clusterv1.MachineHealthCheck) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(&check.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("read spec.selector: %w", err)
	}
	if selector.Empty() {
		return labels.Nothing(), nil
	}
	return selector, nil
}
