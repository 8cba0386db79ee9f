// SPDX-License-Identifier: Apache-2.0

package mutation

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	kjson "sigs.k8s.io/json"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
)

// As calls change with a template as a T, a Go type with the template's JSON schema, and
// applies its changes to t.Object. Fields that T lacks are retained; so are those of list
// elements, which are matched by equality, by their name, key or path, or by their
// position.
func As[T any](t *Template, change func(object *T) error) error {
	after, err := edit(t.Object.UnstructuredContent(), change)
	if err == nil && after != nil {
		t.Object.Object = after
	}
	return err
}

// Edit calls change with a copy of an object as a T and returns the patch of its changes:
// one side of an in-place hook. The object is a RawExtension, JSON, or anything that
// encodes to a JSON object. An object that did not change gives an empty patch; so does
// one that does not exist, for which change is not called.
func Edit[T any](current any, change func(object *T) error, opts ...Option) (hooksv1.Patch, error) {
	before, err := toObject("object", current)
	if err != nil || before == nil {
		return hooksv1.Patch{}, err
	}
	after, err := edit(before, change)
	if err != nil || after == nil {
		return hooksv1.Patch{}, err
	}
	return patch(before, after, complete(opts))
}

// edit returns before after a change of its typed form, or nil without one. It does not
// modify before.
func edit[T any](before map[string]any, change func(object *T) error) (map[string]any, error) {
	data, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	typed := new(T)
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, typed); err != nil {
		return nil, fmt.Errorf("read as %s: %w", reflect.TypeFor[T](), err)
	}
	known, err := toObject("object", typed)
	if err != nil {
		return nil, err
	}
	if err := change(typed); err != nil {
		return nil, err
	}
	wanted, err := toObject("changed object", typed)
	if err != nil || equal(known, wanted) {
		return nil, err
	}
	after, ok := carry(before, known, wanted).(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is not an object", reflect.TypeFor[T]())
	}
	return after, nil
}

// carry returns raw with the changes from known, the part of raw that a Go type has
// fields for, to wanted.
func carry(raw, known, wanted any) any {
	if equal(known, wanted) {
		return raw
	}
	switch wanted := wanted.(type) {
	case map[string]any:
		r, _ := raw.(map[string]any)
		if k, ok := known.(map[string]any); ok {
			return carryFields(r, k, wanted)
		}
	case []any:
		r, isList := raw.([]any)
		if k, ok := known.([]any); ok && isList && len(r) == len(k) {
			return carryElements(r, k, wanted)
		}
	}
	return wanted
}

func carryFields(raw, known, wanted map[string]any) map[string]any {
	out := maps.Clone(raw)
	if out == nil {
		out = map[string]any{}
	}
	for key := range known {
		if _, ok := wanted[key]; !ok {
			delete(out, key)
		}
	}
	for key, w := range wanted {
		k, ok := known[key]
		switch {
		case !ok:
			out[key] = w
		case !equal(k, w): // an equal value may be missing in raw: a zero that the type encodes
			out[key] = carry(raw[key], k, w)
		}
	}
	return out
}

func carryElements(raw, known, wanted []any) []any {
	from := origins(known, wanted)
	out := make([]any, len(wanted))
	for i, w := range wanted {
		out[i] = w
		if j := from[i]; j >= 0 {
			out[i] = carry(raw[j], known[j], w)
		}
	}
	return out
}

// origins returns for each element of after its index in before, or -1. Certain matches
// are first: equal at its position, equal anywhere, of the same name, and last at the
// same position unless the names differ.
func origins(before, after []any) []int {
	from, taken := slices.Repeat([]int{-1}, len(after)), make([]bool, len(before))
	pair := func(i, j int) { from[i], taken[j] = j, true }
	shared := min(len(before), len(after))
	for i := range shared {
		if equal(before[i], after[i]) {
			pair(i, i)
		}
	}
	for _, key := range []func(any) string{text, identity} {
		places := map[string][]int{}
		for j, b := range before {
			if k := key(b); !taken[j] && k != "" {
				places[k] = append(places[k], j)
			}
		}
		for i, a := range after {
			if js := places[key(a)]; from[i] < 0 && len(js) > 0 {
				pair(i, js[0])
				places[key(a)] = js[1:]
			}
		}
	}
	for i := range shared {
		renamed := identity(before[i]) != identity(after[i])
		if from[i] < 0 && !taken[i] && (!renamed || len(before) == len(after)) {
			pair(i, i)
		}
	}
	return from
}

// text is a value's JSON, by which equal values are matched.
func text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(data)
}

// identity is the field by which Kubernetes identifies the elements of most lists.
func identity(v any) string {
	fields, _ := v.(map[string]any)
	for _, key := range []string{"name", "key", "path"} {
		if s, ok := fields[key].(string); ok && s != "" {
			return key + "=" + s
		}
	}
	return ""
}
