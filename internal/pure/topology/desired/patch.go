// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/internal/pure/topology/builtins"
	"github.com/capstan-dev/capstan/internal/pure/topology/patches"
)

// patch runs the patches of the class on all that could be drafted, names the
// templates, and has extensions validate the outcome. It returns what of the
// patches matches nothing.
func (c *computation) patch(ext Extensions) (unmatched []string, err error) {
	all := c.made()
	for _, m := range all {
		m.wanted = m.Desired
	}
	if c.Patches == nil || c.Patches.Empty() {
		for _, m := range all {
			c.settle(m)
		}
		return nil, nil
	}
	run, err := c.run(all, ext)
	if err != nil || c.failed != nil {
		return nil, err
	}
	for _, m := range all {
		c.settle(m)
	}
	// What a patch made of a name that is not to be would have to change as soon as
	// the name is another: machines would be replaced for that alone.
	if mentioned(all) {
		c.describe()
		if run, err = c.run(all, ext); err != nil || c.failed != nil {
			return nil, err
		}
	}
	return run.Unmatched(), validate(run, ext)
}

// made is all that is patched, in an order that is always the same.
func (c *computation) made() (all []*made) {
	all = append(all, c.infrastructure, c.controlPlane.made, c.controlPlane.hosts)
	for _, groups := range [][]*group{c.deployments, c.pools} {
		sorted := slices.Clone(groups)
		slices.SortFunc(sorted, func(a, b *group) int { return strings.Compare(a.of.Name, b.of.Name) })
		for _, g := range sorted {
			all = append(all, g.bootstrap, g.hosts)
		}
	}
	return slices.DeleteFunc(all, func(m *made) bool { return m == nil || m.err != nil })
}

// run runs all patches. An extension that cannot be asked, or gives an answer that
// is about nothing, leaves all as it is: that is failed, and no error.
func (c *computation) run(all []*made, ext Extensions) (*patches.Run, error) {
	in := patches.Input{Builtins: builtins.Cluster(c.Cluster), Variables: c.Cluster.Spec.Topology.Variables}
	for _, m := range all {
		in.Items = append(in.Items, m.Item)
	}
	run, err := c.Patches.Begin(in)
	if err != nil {
		return nil, err
	}
	if c.failed = generate(run, ext); c.failed != nil {
		return nil, nil
	}
	results, err := run.Finish()
	if err != nil {
		return nil, err
	}
	for i, r := range results {
		all[i].wanted, all[i].err = r.Item.Desired, cmp.Or(all[i].err, r.Err)
	}
	return run, nil
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

// validate asks all extensions, so that all that is wrong is told at once.
func validate(run *patches.Run, ext Extensions) error {
	questions, err := run.Validations()
	if err != nil || ext == nil { // without anybody to ask, it is shown unjudged
		return err
	}
	var errs []error
	for _, question := range questions {
		if err := ext.ValidateTopology(question); err != nil {
			errs = append(errs, fmt.Errorf("patch %q: extension %s: %w", question.Patch, question.Extension, err))
		}
	}
	return errors.Join(errs...)
}

// mentioned reports whether a name that a template has no more, or was never to
// have, is in what patches have made.
func mentioned(all []*made) bool {
	var gone []string
	for _, m := range all {
		if m.err == nil && m.called != m.Desired.GetName() {
			gone = append(gone, m.called)
		}
	}
	if len(gone) == 0 {
		return false
	}
	return slices.ContainsFunc(all, func(m *made) bool {
		spec, err := json.Marshal(m.wanted.Object["spec"])
		return err == nil && slices.ContainsFunc(gone, func(name string) bool { return strings.Contains(string(spec), name) })
	})
}
