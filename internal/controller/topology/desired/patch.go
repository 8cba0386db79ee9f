// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/internal/controller/topology/patches"
)

// patch runs the patches of the class on all drafts, names the templates, and has
// extensions validate the result. It returns the patches that match nothing.
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
	// A value that a patch derived from a name that is not final would change with the
	// name: machines would be replaced only for that.
	if mentioned(all) {
		c.describe()
		if run, err = c.run(all, ext); err != nil || c.failed != nil {
			return nil, err
		}
	}
	return run.Unmatched(), validate(run, ext)
}

// made lists all drafts to patch, in a stable order.
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

// run runs all patches. If an extension cannot be called, or answers for an unknown
// item, all objects stay unchanged: that is reported in failed, and is not an error.
func (c *computation) run(all []*made, ext Extensions) (*patches.Run, error) {
	in := patches.Input{Builtins: patches.ClusterBuiltins(c.Cluster), Variables: c.Cluster.Spec.Topology.Variables}
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

// validate calls all extensions, so that all errors are reported together.
func validate(run *patches.Run, ext Extensions) error {
	questions, err := run.Validations()
	if err != nil || ext == nil { // without extensions, the result is shown without validation
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

// mentioned reports whether the result of patches contains a name that a template no
// longer has or never gets.
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
