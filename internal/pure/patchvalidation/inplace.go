// SPDX-License-Identifier: Apache-2.0

package patchvalidation

import "slices"

// UnexpectedFields lists, sorted, the fields of updated whose value is neither that in current nor
// that in desired. A list that is a list in all three can have any value.
func UnexpectedFields(current, updated, desired any) []string {
	found := unexpectedFields(current, updated, desired, "")
	slices.Sort(found)
	return found
}

func unexpectedFields(current, updated, desired any, path string) []string {
	u, uok := updated.(map[string]any)
	c, cok := current.(map[string]any)
	d, dok := desired.(map[string]any)
	if !uok || !cok && !dok {
		if len(Differences(current, updated)) == 0 || len(Differences(desired, updated)) == 0 || lists(current, updated, desired) {
			return nil
		}
		return []string{path}
	}
	var found []string
	for k := range fields(c, u, d) {
		found = append(found, unexpectedFields(c[k], u[k], d[k], below(path, k))...)
	}
	return found
}

func lists(values ...any) bool {
	return !slices.ContainsFunc(values, func(v any) bool {
		_, ok := v.([]any)
		return !ok
	})
}
