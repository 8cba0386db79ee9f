// SPDX-License-Identifier: Apache-2.0

package mutation

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"

	kjson "sigs.k8s.io/json"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
)

const builtin = "builtin"

// Variables are the variables of a cluster, or of a cluster and one of its
// templates. The zero value has none.
type Variables struct {
	layers []layer // later ones take precedence
}

type layer map[string]json.RawMessage

// NewVariables returns Variables from lists, of which a later one overrides those
// before it: the whole cluster's, then an item's. The variable builtin is merged
// field by field.
func NewVariables(lists ...[]hooksv1.Variable) (Variables, error) {
	var v Variables
	for _, list := range lists {
		l, err := newLayer(list)
		if err != nil {
			return Variables{}, err
		}
		v.layers = append(v.layers, l)
	}
	return v, nil
}

func newLayer(list []hooksv1.Variable) (layer, error) {
	l := make(layer, len(list))
	for _, v := range list {
		if _, ok := l[v.Name]; ok {
			return nil, fmt.Errorf("variable %s is there twice", v.Name)
		}
		l[v.Name] = v.Value.Raw
	}
	return l, nil
}

// Variable returns the value of a variable, or of a part of one, by a path such
// as "imageRepository.host", "subnets[0].cidr" or "builtin.cluster.name". It is
// not found when the variable, a field on the path or the list element does not
// exist or is null. A value that is not a T, and a path below a value without
// fields or elements, are errors that name the variable.
func Variable[T any](vars Variables, path string) (value T, found bool, err error) {
	name, steps, err := parse(path)
	if err != nil {
		return value, false, err
	}
	v, err := vars.get(name)
	if err != nil {
		return value, false, err
	}
	for i, s := range steps {
		if v == nil {
			return value, false, nil
		}
		if v, err = s.into(v); err != nil {
			return value, false, fmt.Errorf("variable %s: %s %w", path, describe(name, steps[:i]), err)
		}
	}
	if v == nil {
		return value, false, nil
	}
	data, err := json.Marshal(v)
	if err != nil {
		return value, false, fmt.Errorf("variable %s: %w", path, err)
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &value); err != nil {
		var zero T
		return zero, false, fmt.Errorf("variable %s is %s, not %s: %w", path, kindOf(v), reflect.TypeFor[T](), err)
	}
	return value, true, nil
}

// VariableOr is Variable with a value for when it is not found.
func VariableOr[T any](vars Variables, path string, otherwise T) (T, error) {
	value, found, err := Variable[T](vars, path)
	if err == nil && !found {
		return otherwise, nil
	}
	return value, err
}

// Builtins returns the variable builtin, merged of the cluster's and the item's.
// Without an error neither it nor its Cluster is nil; its other fields are, where
// they do not apply.
func Builtins(vars Variables) (*hooksv1.Builtins, error) {
	b, err := VariableOr(vars, builtin, &hooksv1.Builtins{})
	if err != nil {
		return nil, err
	}
	if b.Cluster == nil {
		b.Cluster = &hooksv1.ClusterBuiltins{}
	}
	return b, nil
}

// get returns a variable as decoded JSON, nil if it does not exist.
func (v Variables) get(name string) (any, error) {
	var out any
	for _, l := range v.layers {
		raw, ok := l[name]
		if !ok || len(raw) == 0 {
			continue
		}
		var value any
		if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &value); err != nil {
			return nil, fmt.Errorf("decode variable %s: %w", name, err)
		}
		if name == builtin {
			value = merged(out, value)
		}
		out = value
	}
	return out, nil
}

// merged is over, on top of the fields of under.
func merged(under, over any) any {
	u, isMap := under.(map[string]any)
	o, ok := over.(map[string]any)
	if !isMap || !ok {
		return over
	}
	out := maps.Clone(u)
	for key, value := range o {
		out[key] = merged(u[key], value)
	}
	return out
}

// step is one part of a path: a field or, without one, an index.
type step struct {
	field string
	index int
}

// parse cuts a path into the name of the variable and the steps into it.
func parse(path string) (name string, steps []step, err error) {
	for i, part := range strings.Split(path, ".") {
		field, indexes, _ := strings.Cut(part, "[")
		if field == "" {
			return "", nil, fmt.Errorf("path %q of a variable has an empty part", path)
		}
		if i == 0 {
			name = field
		} else {
			steps = append(steps, step{field: field})
		}
		if field == part {
			continue
		}
		inner, closed := strings.CutSuffix(indexes, "]")
		for s := range strings.SplitSeq(inner, "][") {
			n, err := strconv.ParseUint(s, 10, 31)
			if err != nil || !closed {
				return "", nil, fmt.Errorf("path %q of a variable has a malformed index", path)
			}
			steps = append(steps, step{index: int(n)})
		}
	}
	return name, steps, nil
}

func (s step) into(v any) (any, error) {
	if s.field != "" {
		fields, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("is %s and has no field %s", kindOf(v), s.field)
		}
		return fields[s.field], nil
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("is %s and has no element %d", kindOf(v), s.index)
	}
	if s.index >= len(list) {
		return nil, nil
	}
	return list[s.index], nil
}

func describe(name string, steps []step) string {
	for _, s := range steps {
		if s.field != "" {
			name += "." + s.field
		} else {
			name += "[" + strconv.Itoa(s.index) + "]"
		}
	}
	return name
}

func kindOf(v any) string {
	switch v.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case nil:
		return "null"
	}
	return "a number"
}
