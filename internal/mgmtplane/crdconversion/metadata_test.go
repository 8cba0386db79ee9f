// SPDX-License-Identifier: Apache-2.0

package crdconversion

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

const usual = `{"name":"a","namespace":"b","generateName":"c-","uid":"d","resourceVersion":"1","generation":2,"deletionGracePeriodSeconds":0,
	"creationTimestamp":"2026-01-02T03:04:05Z","deletionTimestamp":"2026-01-02T03:04:05Z","labels":{"a":"","b":"c"},"annotations":{"a":"<b>"},"finalizers":["a/b"],
	"ownerReferences":[{"apiVersion":"v1","kind":"A","name":"b","uid":"","controller":true,"blockOwnerDeletion":false}],
	"managedFields":[{"manager":"a","operation":"Apply","apiVersion":"v1","time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1","fieldsV1":{"f:a":{".":{}}},"subresource":"status"}]}`

func TestMetadataAsAnAPIServerWritesItIsWellFormed(t *testing.T) {
	t.Parallel()
	if !wellFormed(parse(t, usual)) {
		t.Error("not well-formed")
	}
}

// What the API server's codec would change is what is not well-formed.
func TestWellFormedMetadataIsWhatTheCodecWouldMakeOfIt(t *testing.T) {
	t.Parallel()
	values := []any{nil, "", "a", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05+01:00", "2026-01-02T03:04:05.5Z", int64(0), int64(1), 1.5, true, map[string]any{}, map[string]any{"a": "b"}, map[string]any{"a": int64(1)}, []any{}, []any{"a"}, []any{int64(1)}, []any{map[string]any{}}}
	kept := 0
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := parse(t, usual)
		for range 1 + r.IntN(2) {
			damage(r, m, values)
		}
		if !wellFormed(m) {
			continue
		}
		kept++
		obj := map[string]any{"metadata": runtime.DeepCopyJSONValue(m)}
		meta, _, err := objectmeta.GetObjectMeta(obj, true)
		if err != nil {
			t.Fatal(err)
		}
		if err := objectmeta.SetObjectMeta(obj, meta); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(obj["metadata"], any(m)) {
			t.Fatalf("seed %d: %v\nbecomes %v", seed, m, obj["metadata"])
		}
	}
	if kept < 1_000 {
		t.Errorf("%d of the metadata were well-formed", kept)
	}
}

// damage changes something, somewhere.
func damage(r *rand.Rand, m map[string]any, values []any) {
	key := slices.Sorted(maps.Keys(m))[r.IntN(len(m))]
	if list, ok := m[key].([]any); ok && len(list) > 0 && r.IntN(2) == 0 {
		if in, ok := list[0].(map[string]any); ok && len(in) > 0 {
			damage(r, in, values)
			return
		}
	}
	switch r.IntN(3) {
	case 0:
		delete(m, key)
	case 1:
		m[key] = values[r.IntN(len(values))]
	case 2:
		m["other"] = values[r.IntN(len(values))]
	}
}

func parse(t *testing.T, text string) (m map[string]any) {
	t.Helper()
	if err := utiljson.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return m
}
