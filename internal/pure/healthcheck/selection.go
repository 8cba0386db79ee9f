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

// Selection is what a MachineHealthCheck has to do with the Machines of its
// Cluster.
type Selection struct {
	Targets []*clusterv1.Machine // to judge, by name
	Others  []Other              // that another one judges
}

// Other is a Machine that is selected, and judged by an older check.
type Other struct{ Machine, Check string }

// Select picks among the Machines of a Cluster, of which checks are all
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

// left reports whether a user wants a Machine left alone.
func left(m metav1.Object) bool {
	_, paused := m.GetAnnotations()[clusterv1.PausedAnnotation]
	_, skipped := m.GetAnnotations()[clusterv1.MachineSkipRemediationAnnotation]
	return paused || skipped
}

type elder struct {
	name     string
	selector labels.Selector
}

// eldersOf are the checks that come before one: older ones, and of the same age
// those whose name comes first. One that only reports is in nobody's way, and
// nobody in its.
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
			continue // it judges nobody, and says so
		}
		elders = append(elders, elder{c.Name, selector})
	}
	return elders
}

// Selects reports whether a check has to do with a Machine, or had.
func Selects(check *clusterv1.MachineHealthCheck, m *clusterv1.Machine) bool {
	return selects(check, m) || slices.Contains(check.Status.Targets, m.Name)
}

func selects(check *clusterv1.MachineHealthCheck, m *clusterv1.Machine) bool {
	selector, err := selectorOf(check)
	return err == nil && selector.Matches(labels.Set(m.Labels))
}

// selectorOf is what a check selects by. An empty selector would select every
// Machine of the Cluster, and so selects none.
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
