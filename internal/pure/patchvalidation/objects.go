// SPDX-License-Identifier: Apache-2.0

package patchvalidation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
)

// Differences lists, sorted, the paths at which two trees of JSON differ, as
// spec.template.labels.a. Lists differ as a whole; an absent field equals null.
func Differences(a, b any) []string {
	found := differences(a, b, "")
	slices.Sort(found)
	return found
}

func differences(a, b any, path string) []string {
	am, aok := a.(map[string]any)
	bm, bok := b.(map[string]any)
	if !aok || !bok {
		if reflect.DeepEqual(a, b) {
			return nil
		}
		return []string{path}
	}
	var found []string
	for k := range fields(am, bm) {
		found = append(found, differences(am[k], bm[k], below(path, k))...)
	}
	return found
}

// fields are the names of all fields of some objects.
func fields(objects ...map[string]any) map[string]bool {
	names := map[string]bool{}
	for _, o := range objects {
		for k := range o {
			names[k] = true
		}
	}
	return names
}

func below(path, field string) string {
	if path == "" {
		return field
	}
	return path + "." + field
}

// Join lists the first few paths for users.
func Join(paths []string) string {
	const most = 5
	if len(paths) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(paths[:most], ", "), len(paths)-most)
	}
	return strings.Join(paths, ", ")
}

// Limits of a patch: it is untrusted, and a few bytes of it can double an object again
// and again.
const (
	maxOperations = 10_000
	maxCopied     = 4 << 20
)

// Apply returns an object with a patch applied; it does not change its argument.
func Apply(object map[string]any, kind hooksv1.PatchType, patch []byte) (map[string]any, error) {
	before, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	after, err := ApplyTo(before, kind, patch)
	if err != nil {
		return nil, err
	}
	var patched map[string]any
	err = json.Unmarshal(after, &patched)
	return patched, err
}

// ApplyTo returns an object, as JSON, with a patch applied.
func ApplyTo(before []byte, kind hooksv1.PatchType, patch []byte) (after []byte, err error) {
	switch kind {
	case hooksv1.JSONPatchType:
		operations, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			return nil, fmt.Errorf("it is no JSON patch: %w", err)
		}
		if len(operations) > maxOperations {
			return nil, fmt.Errorf("it has %d operations: at most %d are applied", len(operations), maxOperations)
		}
		options := jsonpatch.NewApplyOptions()
		options.AccumulatedCopySizeLimit = maxCopied
		if after, err = operations.ApplyWithOptions(before, options); err != nil {
			return nil, fmt.Errorf("it does not apply: %w", err)
		}
	case hooksv1.JSONMergePatchType:
		if after, err = jsonpatch.MergePatch(before, patch); err != nil {
			return nil, fmt.Errorf("it does not apply: %w", err)
		}
	default:
		return nil, fmt.Errorf("its type is %q: want %s or %s", kind, hooksv1.JSONPatchType, hooksv1.JSONMergePatchType)
	}
	if !bytes.HasPrefix(bytes.TrimSpace(after), []byte("{")) || !json.Valid(after) {
		return nil, errors.New("it leaves no object")
	}
	return after, nil
}

// Below lists the paths that equal one of the others or are below it.
func Below(paths []string, others ...string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return !isBelow(p, others) })
}

// Outside lists the paths that Below does not.
func Outside(paths []string, others ...string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return isBelow(p, others) })
}

func isBelow(path string, others []string) bool {
	return slices.ContainsFunc(others, func(o string) bool { return path == o || strings.HasPrefix(path, o+".") })
}

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
