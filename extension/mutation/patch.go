// SPDX-License-Identifier: Apache-2.0

package mutation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
)

// Patch returns the patch from before to after, for the answers to CanUpdateMachine and
// CanUpdateMachineSet. Both are a RawExtension, JSON, or anything that encodes to a JSON
// object. It is empty when nothing changed, also when neither exists; only spec may
// change.
func Patch(before, after any, opts ...Option) (hooksv1.Patch, error) {
	b, err := toObject("object before", before)
	if err != nil {
		return hooksv1.Patch{}, err
	}
	a, err := toObject("object after", after)
	if err != nil {
		return hooksv1.Patch{}, err
	}
	switch {
	case b == nil && a == nil:
		return hooksv1.Patch{}, nil
	case b == nil:
		return hooksv1.Patch{}, errors.New("there is no object before")
	case a == nil:
		return hooksv1.Patch{}, errors.New("there is no object after")
	}
	return patch(b, a, complete(opts))
}

func patch(before, after map[string]any, o options) (hooksv1.Patch, error) {
	data, err := between(before, after, o.patchType)
	if err != nil || len(data) == 0 {
		return hooksv1.Patch{}, err
	}
	return hooksv1.Patch{PatchType: o.patchType, Patch: data}, nil
}

// between returns the patch from before, which is decoded JSON, to after, whose
// values may be of any Go type; nil without a change.
func between(before, after map[string]any, patchType hooksv1.PatchType) ([]byte, error) {
	after, err := toObject("changed object", after)
	if err != nil {
		return nil, err
	}
	ops := difference(nil, "", before, after)
	if len(ops) == 0 {
		return nil, nil
	}
	if err := onlySpec(ops); err != nil {
		return nil, err
	}
	if patchType == hooksv1.JSONPatchType {
		return json.Marshal(ops)
	}
	merge, err := mergeDifference("", before, after)
	if err != nil {
		return nil, err
	}
	return json.Marshal(merge)
}

func onlySpec(ops []operation) error {
	var outside []string
	for _, op := range ops {
		if op.Path != "/spec" && !strings.HasPrefix(op.Path, "/spec/") {
			outside = append(outside, op.Path)
		}
	}
	if len(outside) == 0 {
		return nil
	}
	return fmt.Errorf("changes %s: a patch may change only spec", strings.Join(outside, ", "))
}

// operation is one line of a JSON patch.
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// difference appends the operations that turn before into after. Fields are sorted by
// name. They are set with "add", which, unlike "replace", also works for a field that was
// left out because it was zero.
func difference(ops []operation, path string, before, after any) []operation {
	if equal(before, after) {
		return ops
	}
	switch a := after.(type) {
	case map[string]any:
		if b, ok := before.(map[string]any); ok {
			return fieldDifference(ops, path, b, a)
		}
	case []any:
		if b, ok := before.([]any); ok {
			return elementDifference(ops, path, b, a)
		}
	}
	return append(ops, operation{Op: "add", Path: path, Value: mustMarshal(after)})
}

func fieldDifference(ops []operation, path string, before, after map[string]any) []operation {
	if !equal(before[""], after[""]) && path != "" {
		// Not every library supports a field without a name: set all fields.
		return append(ops, operation{Op: "add", Path: path, Value: mustMarshal(after)})
	}
	for _, key := range sortedKeys(before, after) {
		p := path + "/" + pointer.Replace(key)
		b, had := before[key]
		a, has := after[key]
		switch {
		case !has:
			ops = append(ops, operation{Op: "remove", Path: p})
		case !had:
			ops = append(ops, operation{Op: "add", Path: p, Value: mustMarshal(a)})
		default:
			ops = difference(ops, p, b, a)
		}
	}
	return ops
}

// elementDifference skips equal elements at both ends, changes the others one at a time,
// and removes or inserts the rest.
func elementDifference(ops []operation, path string, before, after []any) []operation {
	start, end := 0, 0
	for start < min(len(before), len(after)) && equal(before[start], after[start]) {
		start++
	}
	for end < min(len(before), len(after))-start && equal(before[len(before)-1-end], after[len(after)-1-end]) {
		end++
	}
	at := func(i int) string { return path + "/" + strconv.Itoa(i) }
	b, a := before[start:len(before)-end], after[start:len(after)-end]
	for i := len(b) - 1; i >= len(a); i-- {
		ops = append(ops, operation{Op: "remove", Path: at(start + i)})
	}
	for i := range min(len(b), len(a)) {
		ops = replaceInList(ops, at(start+i), b[i], a[i])
	}
	for i := len(b); i < len(a); i++ {
		ops = append(ops, operation{Op: "add", Path: at(start + i), Value: mustMarshal(a[i])})
	}
	return ops
}

// replaceInList is difference for an element: there "add" would insert.
func replaceInList(ops []operation, path string, before, after any) []operation {
	n := len(ops)
	ops = difference(ops, path, before, after)
	if len(ops) > n && ops[n].Path == path {
		ops[n].Op = "replace"
	}
	return ops
}

// mergeDifference returns the JSON merge patch from before to after.
func mergeDifference(path string, before, after map[string]any) (map[string]any, error) {
	out := map[string]any{}
	for _, key := range sortedKeys(before, after) {
		p := path + "/" + pointer.Replace(key)
		b, had := before[key]
		a, has := after[key]
		if had && has && equal(b, a) {
			continue
		}
		if !has {
			out[key] = nil
			continue
		}
		a, err := mergeValue(p, b, a)
		if err != nil {
			return nil, err
		}
		out[key] = a
	}
	return out, nil
}

func mergeValue(path string, before, after any) (any, error) {
	switch a := after.(type) {
	case nil:
		return nil, fmt.Errorf("sets %s to null, which a JSON merge patch cannot", path)
	case []any:
		// As a whole; RFC 7396 keeps nulls in lists, but not every library does.
		return a, withoutNull(path, a)
	case map[string]any:
		b, _ := before.(map[string]any)
		return mergeDifference(path, b, a)
	}
	return after, nil
}

func withoutNull(path string, v any) error {
	switch v := v.(type) {
	case nil:
		return fmt.Errorf("sets %s to null, which a JSON merge patch cannot", path)
	case []any:
		for i, e := range v {
			if err := withoutNull(path+"/"+strconv.Itoa(i), e); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, key := range sorted(v) {
			if err := withoutNull(path+"/"+pointer.Replace(key), v[key]); err != nil {
				return err
			}
		}
	}
	return nil
}

// equal compares decoded JSON; 1 and 1.0 are the same number.
func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, equal)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	case int64:
		if f, ok := b.(float64); ok {
			return sameNumber(a, f)
		}
	case float64:
		if i, ok := b.(int64); ok {
			return sameNumber(i, a)
		}
	}
	return a == b
}

// sameNumber is exact: beyond 2^53 many integers have the same float64.
func sameNumber(i int64, f float64) bool { return float64(i) == f && int64(f) == i }

// toObject returns v as decoded JSON; nil when v is null.
func toObject(what string, v any) (map[string]any, error) {
	switch raw := v.(type) {
	case *runtime.RawExtension:
		if raw == nil {
			return nil, nil
		}
		return toObject(what, *raw)
	case runtime.RawExtension:
		if raw.Object != nil && len(raw.Raw) == 0 {
			return toObject(what, raw.Object)
		}
		return toObject(what, raw.Raw)
	}
	data, ok := v.([]byte)
	if !ok {
		var err error
		if data, err = json.Marshal(v); err != nil {
			return nil, fmt.Errorf("encode %s: %w", what, err)
		}
	}
	if len(data) == 0 || string(data) == "null" {
		return nil, nil
	}
	return object(what, data)
}

// object decodes a JSON object.
func object(what string, data []byte) (map[string]any, error) {
	if !bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) {
		return nil, fmt.Errorf("%s is not a JSON object", what)
	}
	var out map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &out); err != nil {
		return nil, fmt.Errorf("decode %s: %w", what, err)
	}
	return out, nil
}

// mustMarshal encodes what was decoded before.
func mustMarshal(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

func sorted(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

// Option configures a walk or a patch.
type Option func(*options)

type options struct {
	failFast  bool
	patchType hooksv1.PatchType
}

// FailFast ends a walk at the first error. Without it all items are visited and
// all errors returned.
func FailFast() Option { return func(o *options) { o.failFast = true } }

// MergePatches selects JSON merge patches, which are easier to read, replace
// lists as a whole and cannot set a field to null: a change that does is an
// error.
func MergePatches() Option {
	return func(o *options) { o.patchType = hooksv1.JSONMergePatchType }
}

func complete(opts []Option) options {
	o := options{patchType: hooksv1.JSONPatchType}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}
