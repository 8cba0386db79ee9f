// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/controller/topology/blueprint"
	"github.com/capstan-dev/capstan/internal/controller/topology/desired"
	"github.com/capstan-dev/capstan/internal/controller/topology/upgrade"
	"github.com/capstan-dev/capstan/internal/kit/questions"
)

// Rendered is the final result of a class for a Cluster: every part at the version
// of the topology.
type Rendered struct {
	Objects []*unstructured.Unstructured // in the order of creation
	Notes   []string                     // what of the class is of no use here
}

// Render computes the objects of a new Cluster. A partial result has an error that
// describes what is wrong with the rest.
func (s *Source) Render() (Rendered, error) {
	d, err := s.compute(desired.Current{}, nil, nil)
	if err != nil {
		return Rendered{}, err
	}
	return Rendered{Objects: d.Objects(), Notes: d.Unmatched}, d.Problem()
}

func (s *Source) compute(current desired.Current, same func(current, wanted *unstructured.Unstructured) (bool, error), ext desired.Extensions) (desired.Desired, error) {
	if err := s.settle(); err != nil {
		return desired.Desired{}, err
	}
	compiled, err := s.patches()
	if err != nil {
		return desired.Desired{}, err
	}
	plan, err := atTheEnd(&s.Cluster.Spec.Topology)
	if err != nil {
		return desired.Desired{}, err
	}
	return desired.Compute(desired.Input{
		Cluster: s.Cluster, Blueprint: blueprint.Of(s.class, &s.Cluster.Spec.Topology), Templates: s.template,
		Contract: s.contract, Patches: compiled, Current: current, Plan: plan, Same: same,
	}, ext)
}

// atTheEnd is the plan of a Cluster in which everything is created together.
func atTheEnd(t *clusterv1.Topology) (upgrade.Plan, error) {
	f := upgrade.Facts{Target: t.Version, Concurrency: 1}
	for _, md := range t.Workers.MachineDeployments {
		f.Workers = append(f.Workers, upgrade.Group{Kind: upgrade.MachineDeployment, Name: md.Name, Wanted: true})
	}
	for _, mp := range t.Workers.MachinePools {
		f.Workers = append(f.Workers, upgrade.Group{Kind: upgrade.MachinePool, Name: mp.Name, Wanted: true})
	}
	return upgrade.Next(f, &questions.Asker[upgrade.Question, upgrade.Answer]{})
}

func describe(u *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s/%s", u.GetKind(), u.GetNamespace(), u.GetName())
}
