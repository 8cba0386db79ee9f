// SPDX-License-Identifier: Apache-2.0

package variables

import (
	"bytes"
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Definition is a variable with the common definition of all sources.
type Definition struct {
	Name     string
	Required bool
	Schema   *Compiled
}

// Definitions are the variables of a class, in the order of its status.
type Definitions struct {
	all    []Definition
	byName map[string]*Definition
}

// Resolve builds the definitions from the status of a class. compile is Compile, or a
// cached version of it.
func Resolve(status []clusterv1.ClusterClassStatusVariable, compile func(clusterv1.VariableSchema) (*Compiled, error)) (*Definitions, error) {
	d := &Definitions{all: make([]Definition, 0, len(status)), byName: make(map[string]*Definition, len(status))}
	for _, v := range status {
		if len(v.Definitions) == 0 {
			continue
		}
		first := v.Definitions[0] // they agree, or the class is not ready
		schema, err := compile(first.Schema)
		if err != nil {
			return nil, fmt.Errorf("variable %q, defined by %s: %w", v.Name, first.From, err)
		}
		d.all = append(d.all, Definition{Name: v.Name, Required: first.Required != nil && *first.Required, Schema: schema})
		d.byName[v.Name] = &d.all[len(d.all)-1]
	}
	return d, nil
}

// list is one of the lists of values in a topology.
type list struct {
	at     *field.Path
	values *[]clusterv1.ClusterVariable
	before []clusterv1.ClusterVariable
}

// lists are the values for the whole cluster, and then the overrides.
func lists(at *field.Path, t, old *clusterv1.Topology) []list {
	old = cmp.Or(old, &clusterv1.Topology{})
	overrides := func(at *field.Path) *field.Path { return at.Child("variables", "overrides") }
	out := []list{
		{at.Child("variables"), &t.Variables, old.Variables},
		{overrides(at.Child("controlPlane")), &t.ControlPlane.Variables.Overrides, old.ControlPlane.Variables.Overrides},
	}
	was := map[string][]clusterv1.ClusterVariable{}
	for _, md := range old.Workers.MachineDeployments {
		was["deployment "+md.Name] = md.Variables.Overrides
	}
	for _, mp := range old.Workers.MachinePools {
		was["pool "+mp.Name] = mp.Variables.Overrides
	}
	for i := range t.Workers.MachineDeployments {
		md := &t.Workers.MachineDeployments[i]
		out = append(out, list{overrides(at.Child("workers", "machineDeployments").Key(md.Name)), &md.Variables.Overrides, was["deployment "+md.Name]})
	}
	for i := range t.Workers.MachinePools {
		mp := &t.Workers.MachinePools[i]
		out = append(out, list{overrides(at.Child("workers", "machinePools").Key(mp.Name)), &mp.Variables.Overrides, was["pool "+mp.Name]})
	}
	return out
}

// Default sets the defaults of the class in a topology. Values keep the user's order;
// values that are only in the class follow, in its order. Overrides are never added, but
// missing fields of existing ones are set.
func (d *Definitions) Default(at *field.Path, t *clusterv1.Topology) (errs field.ErrorList) {
	for i, l := range lists(at, t, nil) {
		set := map[string]bool{}
		for j := range *l.values {
			v := &(*l.values)[j]
			set[v.Name] = true
			of := d.byName[v.Name]
			if of == nil {
				continue // Validate reports it
			}
			filled, err := of.Schema.fill(&v.Value)
			if err != nil {
				errs = append(errs, field.Invalid(l.at.Key(v.Name).Child("value"), string(v.Value.Raw), err.Error()))
				continue
			}
			v.Value = *filled
		}
		if i > 0 {
			continue
		}
		for _, of := range d.all {
			if set[of.Name] {
				continue
			}
			switch filled, err := of.Schema.fill(nil); {
			case err != nil:
				errs = append(errs, field.Invalid(l.at.Key(of.Name), of.Name, err.Error()))
			case filled != nil:
				*l.values = append(*l.values, clusterv1.ClusterVariable{Name: of.Name, Value: *filled})
			}
		}
	}
	return errs
}

// Validate returns what is wrong with the values of a topology. old is the previous
// topology: oldSelf in rules is a value of the same list in it.
func (d *Definitions) Validate(at *field.Path, t, old *clusterv1.Topology) field.ErrorList {
	return d.validate(at, t, old, Budget)
}

func (d *Definitions) validate(at *field.Path, t, old *clusterv1.Topology, budget int64) (errs field.ErrorList) {
	for i, l := range lists(at, t, old) {
		set := map[string]bool{}
		for _, v := range *l.values {
			path, of := l.at.Key(v.Name), d.byName[v.Name]
			switch {
			case set[v.Name]:
				errs = append(errs, field.Invalid(path, v.Name, fmt.Sprintf("variable %q is set more than once", v.Name)))
			case of == nil:
				errs = append(errs, field.Invalid(path, v.Name, "variable is not defined"))
			default:
				var found field.ErrorList
				found, budget = of.validate(path.Child("value"), v, l.before, budget)
				errs = append(errs, found...)
			}
			set[v.Name] = true
		}
		if i > 0 {
			continue
		}
		for _, of := range d.all {
			if of.Required && !set[of.Name] {
				errs = append(errs, field.Required(l.at.Key(of.Name), fmt.Sprintf("required variable %q must be set", of.Name)))
			}
		}
	}
	return errs
}

func (of *Definition) validate(at *field.Path, v clusterv1.ClusterVariable, before []clusterv1.ClusterVariable, budget int64) (field.ErrorList, int64) {
	is, err := decode(v.Value.Raw)
	if err != nil {
		return field.ErrorList{field.Invalid(at, string(v.Value.Raw), "is not JSON: "+err.Error())}, budget
	}
	var was any
	for _, b := range before {
		if b.Name == v.Name && !bytes.Equal(b.Value.Raw, []byte("null")) {
			was, _ = decode(b.Value.Raw) // stored JSON
		}
	}
	return of.Schema.check(at, v.Name, is, was, max(budget, 0))
}
