// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/internal/pure/topology/builtins"
	"github.com/capstan-dev/capstan/internal/pure/topology/patches"
)

// patch runs the patches of the class on all that could be drafted, and has
// extensions validate the outcome. It returns what of the patches matches nothing.
func (c *computation) patch(ext Extensions) (unmatched []string, err error) {
	if c.Patches == nil || c.Patches.Empty() {
		return nil, nil
	}
	all := c.made()
	in := patches.Input{Builtins: builtins.Cluster(c.Cluster), Variables: c.Cluster.Spec.Topology.Variables}
	for _, m := range all {
		in.Items = append(in.Items, m.Item)
	}
	run, err := c.Patches.Begin(in)
	if err != nil {
		return nil, err
	}
	if err := generate(run, ext); err != nil {
		return nil, err
	}
	if err := validate(run, ext); err != nil {
		return nil, err
	}
	results, err := run.Finish()
	if err != nil {
		return nil, err
	}
	for i, r := range results {
		all[i].Desired, all[i].err = r.Item.Desired, r.Err
	}
	return run.Unmatched(), nil
}

// made is all that is patched, in an order that is always the same.
func (c *computation) made() (all []*made) {
	all = append(all, c.infrastructure.made, c.controlPlane.made, c.controlPlane.hosts)
	for _, groups := range [][]*group{c.deployments, c.pools} {
		sorted := slices.Clone(groups)
		slices.SortFunc(sorted, func(a, b *group) int { return strings.Compare(a.of.Name, b.of.Name) })
		for _, g := range sorted {
			all = append(all, g.bootstrap, g.hosts)
		}
	}
	return slices.DeleteFunc(all, func(m *made) bool { return m == nil || m.err != nil })
}

func generate(run *patches.Run, ext Extensions) error {
	for {
		question, err := run.Next()
		if err != nil || question == nil {
			return err
		}
		if ext == nil {
			return fmt.Errorf("patch %q is made by extension %s, which can only be asked at a management plane", question.Patch, question.Extension)
		}
		answer, err := ext.GeneratePatches(*question)
		if err != nil {
			return fmt.Errorf("patch %q: extension %s: %w", question.Patch, question.Extension, err)
		}
		if err := run.Answer(answer); err != nil {
			return err
		}
	}
}

func validate(run *patches.Run, ext Extensions) error {
	questions, err := run.Validations()
	if err != nil {
		return err
	}
	var errs []error
	for _, question := range questions {
		if ext == nil { // nobody to ask; what patches made is shown all the same
			continue
		}
		if err := ext.ValidateTopology(question); err != nil {
			errs = append(errs, fmt.Errorf("patch %q: extension %s: %w", question.Patch, question.Extension, err))
		}
	}
	return errors.Join(errs...)
}
