// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"encoding/json"
	"maps"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
)

// form is an encoding of objects.
type form[F any] struct {
	name   string // in metrics: the user of the form
	decode func(obj F, into runtime.Object) error
	encode func(obj runtime.Object, of F) (F, error)
}

var (
	inJSON   = form[[]byte]{"review", decodeJSON, encodeJSON}
	inMemory = form[map[string]any]{"storage", decodeMap, encodeMap}
)

func decodeJSON(raw []byte, into runtime.Object) error {
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, into); err != nil {
		return err
	}
	into.(metav1.Object).SetManagedFields(nil)
	return nil
}

// encodeJSON always has metadata, empty if need be: field management converts
// objects that have none, and an API server refuses an answer without.
func encodeJSON(obj runtime.Object, _ []byte) ([]byte, error) {
	data, err := json.Marshal(obj)
	if err != nil || !reflect.ValueOf(obj.(metav1.ObjectMetaAccessor).GetObjectMeta()).Elem().IsZero() {
		return data, err
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	fields["metadata"] = json.RawMessage("{}")
	return json.Marshal(fields)
}

// decodeMap decodes of metadata only what a conversion may read: managed fields are
// most of many objects.
func decodeMap(obj map[string]any, into runtime.Object) error {
	seen := maps.Clone(obj)
	if metadata, ok := obj["metadata"].(map[string]any); ok {
		few := map[string]any{}
		for _, name := range []string{"name", "namespace", "labels", "annotations"} {
			if v, ok := metadata[name]; ok {
				few[name] = v
			}
		}
		seen["metadata"] = few
	}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(seen, into) == nil {
		return nil
	}
	data, err := json.Marshal(seen) // its error names the invalid value and its place
	if err != nil {
		return err
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(data, into)
}

// encodeMap takes labels and annotations from obj, and the rest of metadata from
// what was decoded.
func encodeMap(obj runtime.Object, of map[string]any) (map[string]any, error) {
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	was, _ := of["metadata"].(map[string]any)
	metadata := maps.Clone(was)
	if metadata == nil {
		metadata = map[string]any{}
	}
	converted, _ := out["metadata"].(map[string]any)
	for _, name := range []string{"labels", "annotations"} {
		delete(metadata, name)
		if v, ok := converted[name]; ok {
			metadata[name] = v
		}
	}
	out["metadata"] = metadata
	return out, nil
}
