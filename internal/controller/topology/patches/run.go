// SPDX-License-Identifier: Apache-2.0

package patches

import (
	"errors"
	"fmt"
	"slices"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/internal/pure/gotemplate"
	"github.com/capstan-dev/capstan/internal/pure/variables"
)

// Input is a Cluster in the form that its patches see.
type Input struct {
	Builtins  hooksv1.Builtins            // of the Cluster
	Variables []clusterv1.ClusterVariable // for the whole cluster, with defaults
	Items     []Item
}

// Run applies the patches of a class to the templates of a Cluster. It is not safe for
// concurrent use.
type Run struct {
	of     *Class
	in     Input
	states []*templateState
	next   int // the next patch; asked, if its answer is awaited
	asked  bool
}

// templateState is the state of an item during the patches.
type templateState struct {
	*Item
	values   map[string]any
	budget   gotemplate.Budget // the remaining budget of its templates
	made     map[string]any    // values by their text, shared by the items of a Run
	document map[string]any
	patched  bool  // the document was changed
	err      error // no further patch is applied
}

// Begin starts a Run.
func (c *Class) Begin(in Input) (*Run, error) {
	r := &Run{of: c, in: in}
	cluster := map[string]any{}
	own, err := decodeBuiltins(in.Builtins)
	if err != nil {
		return nil, fmt.Errorf("variable %q: %w", Name, err)
	}
	cluster[Name] = own
	// Inline patches define no variables, so all of them see the same.
	if err := decodeAll(cluster, variables.Visible(c.status, clusterv1.VariableDefinitionFromInline, in.Variables)); err != nil {
		return nil, err
	}
	made := map[string]any{}
	for i := range in.Items {
		item := &in.Items[i]
		t := &templateState{Item: item, made: made, budget: gotemplate.PerObject, document: item.request()}
		if t.values, err = scope(cluster, item, variables.Visible(c.status, clusterv1.VariableDefinitionFromInline, item.Overrides)); err != nil {
			return nil, fmt.Errorf("%s: %w", item, err)
		}
		r.states = append(r.states, t)
	}
	return r, nil
}

// Question is the question to an extension for a patch.
type Question struct {
	Patch     string // the patch's name
	Extension string // the handler's
	Request   *hooksv1.GeneratePatchesRequest
}

// Next continues until an extension must be called, and returns the question; nil when
// all patches are applied.
func (r *Run) Next() (*Question, error) {
	if r.asked {
		return nil, fmt.Errorf("patch %q has no answer yet", r.of.patches[r.next].name)
	}
	for ; r.next < len(r.of.patches); r.next++ {
		p := &r.of.patches[r.next]
		if p.external != nil && p.external.GeneratePatchesExtension != "" {
			return r.ask(p)
		}
		for _, t := range r.states {
			if t.err == nil {
				t.err = t.inline(p)
			}
		}
	}
	return nil, nil
}

// Result is an object or template after the patches.
type Result struct {
	Item *Item
	Err  error // if set, Desired is unchanged
}

// Finish returns the results, in the order of the items.
func (r *Run) Finish() ([]Result, error) {
	if r.next < len(r.of.patches) {
		return nil, errors.New("patches are not all applied")
	}
	out := make([]Result, 0, len(r.states))
	for _, t := range r.states {
		item := *t.Item
		if t.err == nil {
			item.Desired, t.err = t.outcome()
		}
		if t.err != nil {
			item.Desired, t.err = t.Desired, fmt.Errorf("%s: %w", t, t.err)
		}
		out = append(out, Result{&item, t.err})
	}
	return out, nil
}

// Unmatched reports each definition that has no effect: it selects a role that this
// Cluster has, and a kind or version that no template of the role has. A class of
// workers that the Cluster does not use is not a mistake.
func (r *Run) Unmatched() (out []string) {
	for _, p := range r.of.patches {
		for n, d := range p.definitions {
			role := slices.ContainsFunc(r.states, func(t *templateState) bool { return t.hasRole(d.selector.MatchResources) })
			if role && !slices.ContainsFunc(r.states, func(t *templateState) bool { return t.selectedBy(d.selector) }) {
				out = append(out, fmt.Sprintf("patch %q, definitions[%d]: no template that it selects by role is a %s of %s: correct kind or apiVersion", p.name, n, d.selector.Kind, d.selector.APIVersion))
			}
		}
	}
	return out
}
