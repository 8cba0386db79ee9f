// SPDX-License-Identifier: Apache-2.0

package patches

import (
	"errors"
	"fmt"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/gotemplate"
	"github.com/capstan-dev/capstan/internal/pure/variables"
)

// Class are the patches of a ClusterClass, compiled. Several Runs may use it at
// once.
type Class struct {
	patches []patch
	status  []clusterv1.ClusterClassStatusVariable
}

// patch is one patch of a class: definitions, or an extension.
type patch struct {
	name        string
	enabled     *gotemplate.Template // nil: always
	definitions []definition
	external    *clusterv1.ExternalPatchDefinition
}

type definition struct {
	selector   clusterv1.PatchSelector
	operations []operation
}

// operation is one change; it has at most one of value, variable and template.
type operation struct {
	op, path string
	pointer  []string // the path
	value    any
	variable path
	template *gotemplate.Template
}

// Compile compiles the patches of a class, whose status has all its variables. The error
// lists all mistakes, by patch, definition and path.
func Compile(class *clusterv1.ClusterClass) (*Class, error) {
	c := &Class{status: class.Status.Variables}
	var errs []error
	for i := range class.Spec.Patches {
		p, err := c.compile(&class.Spec.Patches[i])
		c.patches = append(c.patches, p)
		errs = append(errs, err)
	}
	return c, errors.Join(errs...)
}

func (c *Class) compile(from *clusterv1.ClusterClassPatch) (p patch, err error) {
	p = patch{name: from.Name, external: from.External}
	var errs []error
	if from.EnabledIf != "" {
		if p.enabled, err = gotemplate.Parse(from.EnabledIf); err != nil {
			errs = append(errs, fmt.Errorf("patch %q: enabledIf: %w", p.name, err))
		}
	}
	for i, d := range from.Definitions {
		out := definition{selector: d.Selector}
		for _, j := range d.JSONPatches {
			o, err := c.operation(p.name, j)
			if err != nil {
				errs = append(errs, fmt.Errorf("patch %q, definitions[%d] for %s: %s %s: %w", p.name, i, d.Selector.Kind, j.Op, j.Path, err))
			}
			out.operations = append(out.operations, o)
		}
		p.definitions = append(p.definitions, out)
	}
	return p, errors.Join(errs...)
}

func (c *Class) operation(patch string, from clusterv1.JSONPatch) (o operation, err error) {
	o = operation{op: from.Op, path: from.Path}
	if o.pointer, err = pointer(from.Path); err != nil {
		return o, err
	}
	switch {
	case from.Op == "remove":
	case from.Value != nil && from.ValueFrom == nil:
		if o.value, err = decodeJSON(from.Value.Raw); err != nil {
			err = errors.New("value is no JSON")
		}
	case from.Value != nil || from.ValueFrom == nil:
		err = errors.New("it has to have either value or valueFrom")
	case (from.ValueFrom.Variable == "") == (from.ValueFrom.Template == ""):
		err = errors.New("valueFrom has to have either variable or template")
	case from.ValueFrom.Variable != "":
		if o.variable, err = parsePath(from.ValueFrom.Variable); err == nil && !c.defines(patch, o.variable.variable()) {
			err = fmt.Errorf("valueFrom.variable: the class defines no variable %q: define it in spec.variables, or correct the name", o.variable.variable())
		}
	default:
		if o.template, err = gotemplate.Parse(from.ValueFrom.Template); err != nil {
			err = fmt.Errorf("valueFrom.template: %w", err)
		}
	}
	return o, err
}

// defines reports whether a patch sees a variable.
func (c *Class) defines(patch, name string) bool {
	return name == Name || len(variables.Visible(c.status, patch, []clusterv1.ClusterVariable{{Name: name}})) > 0
}

// Empty reports whether there is nothing to do.
func (c *Class) Empty() bool { return len(c.patches) == 0 }
