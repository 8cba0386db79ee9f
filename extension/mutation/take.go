// SPDX-License-Identifier: Apache-2.0

package mutation

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
)

// Take returns the patch that sets the fields of current at some paths, such as
// "spec.files", to their values in desired: the answer of an in-place hook for
// the fields that it can change. A field that desired lacks is removed. Both
// arguments are as for Patch, but without a desired object, too, the patch is
// empty.
func Take(current, desired any, paths ...string) (hooksv1.Patch, error) {
	before, err := toObject("current object", current)
	if err != nil {
		return hooksv1.Patch{}, err
	}
	wanted, err := toObject("desired object", desired)
	if err != nil || before == nil || wanted == nil {
		return hooksv1.Patch{}, err
	}
	after := runtime.DeepCopyJSON(before)
	for _, path := range paths {
		names := strings.Split(path, ".")
		if slices.Contains(names, "") {
			return hooksv1.Patch{}, fmt.Errorf("path %q has an empty part", path)
		}
		if err := take(after, wanted, names); err != nil {
			return hooksv1.Patch{}, fmt.Errorf("take %s: %w", path, err)
		}
	}
	return patch(before, after, complete(nil))
}

// take copies one field. If a part of the path is missing in desired, the field
// is missing; if it is missing in current, it is created.
func take(current, desired map[string]any, names []string) error {
	name, rest := names[0], names[1:]
	want, wanted := desired[name]
	if len(rest) == 0 {
		if wanted {
			current[name] = want
		} else {
			delete(current, name)
		}
		return nil
	}
	have, err := child(current, name)
	if err != nil {
		return fmt.Errorf("current %w", err)
	}
	next, err := child(desired, name)
	if err != nil {
		return fmt.Errorf("desired %w", err)
	}
	switch {
	case next == nil && have == nil:
		return nil
	case have == nil:
		have = map[string]any{}
		current[name] = have
	}
	return take(have, next, rest)
}

// child is an object in an object, nil where it is missing or null.
func child(parent map[string]any, name string) (map[string]any, error) {
	v := parent[name]
	m, ok := v.(map[string]any)
	if v != nil && !ok {
		return nil, fmt.Errorf("%s is %s and has no fields", name, kindOf(v))
	}
	return m, nil
}
