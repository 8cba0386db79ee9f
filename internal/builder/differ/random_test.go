// SPDX-License-Identifier: Apache-2.0

package differ

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// source generates random intents for one kind and changes them.
type source interface {
	make(r *rand.Rand) map[string]any
	change(r *rand.Rand, from map[string]any) map[string]any
}

// decode reads JSON that is written in this package.
func decode(s string) (v any) {
	if err := utiljson.Unmarshal([]byte(s), &v); err != nil {
		panic(err.Error() + ": " + s)
	}
	return v
}

func decodeObject(s string) map[string]any { return decode(s).(map[string]any) }

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// byEdits starts from one intent and puts listed values at listed paths.
type byEdits struct {
	base  map[string]any
	edits map[string][]any
}

// gone represents no value.
type gone struct{}

func (b byEdits) make(*rand.Rand) map[string]any { return runtime.DeepCopyJSON(b.base) }

func (b byEdits) change(r *rand.Rand, from map[string]any) map[string]any {
	out := runtime.DeepCopyJSON(from)
	for n := 1 + r.IntN(3); n > 0; n-- {
		path := pick(r, sorted(b.edits)...)
		put(out, strings.Split(path, "."), pick(r, b.edits[path]...))
	}
	return out
}

func put(m map[string]any, path []string, value any) {
	for _, k := range path[:len(path)-1] {
		next, ok := m[k].(map[string]any)
		if !ok {
			if _, none := value.(gone); none {
				return
			}
			next = map[string]any{}
			m[k] = next
		}
		m = next
	}
	last := path[len(path)-1]
	if _, none := value.(gone); none {
		delete(m, last)
		return
	}
	m[last] = runtime.DeepCopyJSONValue(value)
}

// bySchema generates anything that a schema of a spec allows, and some values that
// it does not.
type bySchema struct{ spec map[string]any }

func (b bySchema) make(r *rand.Rand) map[string]any {
	meta := map[string]any{}
	if r.IntN(2) == 0 {
		meta["labels"] = map[string]any{"owned": ""}
	}
	return map[string]any{"metadata": meta, "spec": generate(r, b.spec, 0)}
}

func (b bySchema) change(r *rand.Rand, from map[string]any) map[string]any {
	out := runtime.DeepCopyJSON(from)
	if spec, ok := out["spec"].(map[string]any); ok {
		out["spec"] = mutate(r, spec, b.spec)
	}
	switch meta, _ := out["metadata"].(map[string]any); r.IntN(8) {
	case 0:
		meta["labels"] = map[string]any{pick(r, "owned", "b"): pick(r, "", "1")}
	case 1:
		delete(meta, "labels")
	case 2:
		meta["annotations"] = map[string]any{pick(r, "a/b", "c&d"): pick(r, "", "<1>")}
	}
	return out
}

func generate(r *rand.Rand, s map[string]any, depth int) any {
	switch {
	case s["nullable"] == true && r.IntN(5) == 0 || r.IntN(60) == 0:
		return nil
	case s["x-kubernetes-int-or-string"] == true:
		return pick[any](r, int64(1), "1", "50%")
	case s["x-kubernetes-embedded-resource"] == true:
		return generateObject(r)
	}
	switch s["type"] {
	case "string":
		return generateString(r, s)
	case "integer":
		return pick[any](r, int64(0), int64(1), int64(2), float64(2))
	case "number":
		return pick[any](r, int64(0), int64(1), float64(1), 1.5, 1e21)
	case "boolean":
		return r.IntN(2) == 0
	case "array":
		return generateList(r, s, depth)
	}
	return generateFields(r, s, depth)
}

func generateString(r *rand.Rand, s map[string]any) any {
	switch {
	case s["format"] == "date-time":
		return pick(r, "2030-01-01T00:00:00Z", "2030-01-01T00:00:00.000Z", "2030-01-01T01:00:00+01:00")
	case s["format"] == "byte":
		return pick(r, "YQ==", "YmI=")
	case s["enum"] != nil:
		return pick(r, "TCP", "UDP")
	}
	return pick(r, "x", "y", "z", "")
}

// generateObject is an embedded one.
func generateObject(r *rand.Rand) any {
	meta := map[string]any{"name": pick(r, "n", "m")}
	out := map[string]any{"apiVersion": "v1", "kind": pick(r, "A", "B"), "metadata": meta}
	if r.IntN(2) == 0 {
		meta["labels"] = map[string]any{"a": pick(r, "1", "2")}
	}
	if r.IntN(2) == 0 {
		out["data"] = free(r, 0)
	}
	return out
}

// generateList now and then breaks the rule that what names an item is there
// once.
func generateList(r *rand.Rand, s map[string]any, depth int) any {
	items := s["items"].(map[string]any)
	named := s["x-kubernetes-list-type"] != nil && s["x-kubernetes-list-type"] != "atomic"
	out, seen := []any{}, map[string]bool{}
	for n := r.IntN(4); n > 0; n-- {
		v := generate(r, items, depth+1)
		if v == nil && s["x-kubernetes-list-type"] != nil && r.IntN(30) > 0 {
			continue
		}
		name, _ := json.Marshal(v) // it consists of what encodes
		if keys, ok := s["x-kubernetes-list-map-keys"].([]any); ok {
			item, _ := v.(map[string]any)
			if item == nil {
				continue
			}
			name = []byte(generateKeys(r, item, items["properties"].(map[string]any), keys))
		}
		if named && seen[string(name)] && r.IntN(50) > 0 {
			continue
		}
		seen[string(name)] = true
		out = append(out, v)
	}
	return out
}

// generateKeys fills in the keys of an item, or leaves them to their defaults.
func generateKeys(r *rand.Rand, item, fields map[string]any, keys []any) (name string) {
	for _, k := range keys {
		key := k.(string)
		field := fields[key].(map[string]any)
		switch {
		case item[key] != nil:
		case field["default"] != nil && r.IntN(2) == 0:
			delete(item, key)
		case field["type"] == "string":
			item[key] = pick(r, "UDP", "TCP")
		default:
			item[key] = pick[any](r, int64(80), int64(443), float64(80))
		}
		value := item[key]
		if value == nil {
			value = field["default"]
		}
		text, _ := json.Marshal(value)
		name += string(text)
	}
	return name
}

func generateFields(r *rand.Rand, s map[string]any, depth int) any {
	keeps := s["x-kubernetes-preserve-unknown-fields"] == true
	if keeps && s["properties"] == nil {
		out := free(r, 0)
		if _, ok := out.(map[string]any); !ok && s["type"] != nil {
			return map[string]any{}
		}
		return out
	}
	out := map[string]any{}
	if every, ok := s["additionalProperties"].(map[string]any); ok {
		for _, k := range []string{"a", "b.c/d", "e"} {
			if r.IntN(2) == 0 {
				out[k] = generate(r, every, depth+1)
			}
		}
		return out
	}
	fields, _ := s["properties"].(map[string]any)
	if fields == nil && r.IntN(2) == 0 {
		out["extra"] = pick[any](r, int64(1), "s")
	}
	for _, k := range sorted(fields) {
		if k == "fixed" && r.IntN(4) == 0 {
			out[k] = pick(r, "x", "y")
		}
		if k != "fixed" && r.IntN(5) < 2 {
			out[k] = generate(r, fields[k].(map[string]any), depth+1)
		}
	}
	if keeps && r.IntN(2) == 0 {
		out["unknown"] = free(r, 0)
	}
	return out
}

// free is any JSON.
func free(r *rand.Rand, depth int) any {
	switch n := r.IntN(8); {
	case n == 0:
		return nil
	case n == 1:
		return pick[any](r, int64(1), 2.5, "s", true)
	case depth >= 3:
		return "leaf"
	case n < 4:
		out := []any{}
		for i := r.IntN(3); i > 0; i-- {
			out = append(out, free(r, depth+1))
		}
		return out
	}
	out := map[string]any{}
	for _, k := range []string{"a", "b", "f:x", "name"} {
		if r.IntN(3) == 0 {
			out[k] = free(r, depth+1)
		}
	}
	return out
}

// mutate changes a value here and there.
func mutate(r *rand.Rand, v any, s map[string]any) any {
	switch v := v.(type) {
	case map[string]any:
		return mutateFields(r, v, s)
	case []any:
		items, _ := s["items"].(map[string]any)
		switch r.IntN(8) {
		case 0:
			r.Shuffle(len(v), func(i, j int) { v[i], v[j] = v[j], v[i] })
		case 1:
			return slices.Clone(v[min(1, len(v)):])
		case 2:
			return generate(r, s, 1)
		default:
			for i := range v {
				if items != nil && s["x-kubernetes-list-type"] != "set" {
					v[i] = mutate(r, v[i], items)
				}
			}
		}
		return v
	}
	if r.IntN(10) == 0 && s != nil {
		return generate(r, s, 1)
	}
	return v
}

func mutateFields(r *rand.Rand, v, s map[string]any) any {
	fields, _ := s["properties"].(map[string]any)
	every, _ := s["additionalProperties"].(map[string]any)
	for _, k := range sorted(v) {
		field, _ := fields[k].(map[string]any)
		if field == nil {
			field = every
		}
		switch n := r.IntN(20); {
		case n == 0 && !slices.Contains([]string{"port", "id", "apiVersion", "kind"}, k):
			delete(v, k)
		case field == nil || k == "fixed":
		case n == 1:
			v[k] = generate(r, field, 1)
		default:
			v[k] = mutate(r, v[k], field)
		}
	}
	for _, k := range sorted(fields) {
		if _, has := v[k]; !has && k != "fixed" && r.IntN(20) == 0 {
			v[k] = generate(r, fields[k].(map[string]any), 1)
		}
	}
	return v
}
