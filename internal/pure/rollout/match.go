// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Pace resolves maxSurge and maxUnavailable. If both are zero, one Machine may be
// unavailable: otherwise a rollout could not progress.
func Pace(md *clusterv1.MachineDeployment, want int) (surge, unavailable int) {
	strategy := md.Spec.Rollout.Strategy
	if strategy.Type == clusterv1.OnDeleteMachineDeploymentStrategyType {
		return 0, 0
	}
	surge = resolve(strategy.RollingUpdate.MaxSurge, 1, want, true)
	unavailable = resolve(strategy.RollingUpdate.MaxUnavailable, 0, want, false)
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, unavailable
}

// resolve resolves a number or a percentage. Admission refuses any other value; here it
// counts as the default.
func resolve(v *intstr.IntOrString, otherwise, want int, up bool) int {
	if v == nil {
		return otherwise
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(v, want, up)
	if err != nil {
		return otherwise
	}
	return max(n, 0)
}

// hash of the essence of a template, for the label that distinguishes MachineSets.
func hash(t clusterv1.MachineTemplateSpec) string {
	raw, err := json.Marshal(essenceOf(t))
	if err != nil {
		panic(err) // strings only
	}
	h := fnv.New32a()
	h.Write(raw)
	return fmt.Sprint(h.Sum32())
}

// Current returns the MachineSet of the list that matches a MachineDeployment's
// template, or nil. Of several, the one with most replicas, then the oldest. Once
// spec.rollout.after has passed, MachineSets older than it do not count.
func Current[T interface {
	comparable
	metav1.Object
}](f Facts, sets []T, set func(T) *clusterv1.MachineSet) (found T) {
	matching := slices.DeleteFunc(slices.Clone(sets), func(c T) bool {
		s := set(c)
		return !s.DeletionTimestamp.IsZero() || len(Behind(f.Deployment, s, f.Now)) > 0
	})
	if len(matching) == 0 {
		return found
	}
	return slices.MinFunc(matching, func(a, b T) int {
		return cmp.Or(
			-cmp.Compare(replicas(set(a)), replicas(set(b))),
			set(a).CreationTimestamp.Compare(set(b).CreationTimestamp.Time),
			cmp.Compare(a.GetName(), b.GetName()),
		)
	})
}

func replicas(s *clusterv1.MachineSet) int32 { return ptr.Deref(s.Spec.Replicas, 0) }

// match returns the current MachineSet; nil without one.
func (p *planner) match() *member {
	return Current(p.Facts, p.members, func(m *member) *clusterv1.MachineSet { return m.MachineSet })
}

// chooseCurrent returns the current MachineSet or creates one, if there is a name.
func (p *planner) chooseCurrent() {
	p.current = p.match()
	if p.current != nil || p.Name == "" {
		return
	}
	unique := hash(p.Deployment.Spec.Template) + "-" + p.Name[strings.LastIndex(p.Name, "-")+1:]
	p.current = &member{isNew: true, Set: Set{MachineSet: newSet(p.Deployment, p.Name, unique)}}
	p.members = append(p.members, p.current)
}
