// SPDX-License-Identifier: Apache-2.0

package intent

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// shape is what of a schema is needed to complete an intent; the schema itself
// is several times as large. Metadata has none: nothing is filled in there.
type shape struct {
	atomic   bool // merged as one value
	closed   bool // an object that declares no field and keeps none
	keeps    bool // fields that it does not declare
	nullable bool
	value    any // the default; nil without one
	fields   map[string]*shape
	every    *shape // of the values of a map
	items    *shape
}

func shapeOf(s *spec.Schema) *shape {
	if s == nil || s.Ref.String() != "" {
		return nil
	}
	out := &shape{
		atomic: atomic(s), nullable: s.Nullable, value: s.Default, keeps: is(s, "x-kubernetes-preserve-unknown-fields"),
	}
	if len(s.Properties) > 0 {
		out.fields = make(map[string]*shape, len(s.Properties))
		for name, p := range s.Properties {
			out.fields[name] = shapeOf(&p)
		}
	}
	if s.AdditionalProperties != nil {
		out.every = shapeOf(s.AdditionalProperties.Schema)
	}
	if s.Items != nil {
		out.items = shapeOf(s.Items.Schema)
	}
	out.closed = s.Type.Contains("object") && len(s.Properties) == 0 && s.AdditionalProperties == nil && !out.keeps
	return out
}

// atomic reports whether an API server merges what s describes as one value.
func atomic(s *spec.Schema) bool {
	if s.Type.Contains("array") {
		kind, _ := s.Extensions["x-kubernetes-list-type"].(string)
		return kind != "map" && kind != "set"
	}
	kind, _ := s.Extensions["x-kubernetes-map-type"].(string)
	return kind == "atomic"
}

// complete brings a value, in place, to the one form that the server would
// store, so that a comparison here and there comes to the same:
//
//   - null where the schema does not say nullable is dropped: the server drops it
//     or puts the default in its place, and yet would keep it as ours;
//   - fields of an object that declares none, and keeps none, are dropped: the
//     merge accepts them, pruning removes them, and the field set would name for
//     ever what never exists;
//   - in what is merged as one value (whole) defaults are filled in: the server
//     fills them in after the merge, and the values would differ. Elsewhere they
//     are not, since that would own what nobody asked for.
func (s *shape) complete(value any, whole bool) {
	if s == nil {
		return
	}
	whole = whole || s.atomic
	switch value := value.(type) {
	case map[string]any:
		s.completeObject(value, whole)
	case []any:
		for _, item := range value {
			s.items.complete(item, whole)
		}
	}
}

func (s *shape) completeObject(object map[string]any, whole bool) {
	for name, value := range object {
		field, known := s.field(name)
		switch {
		case s.closed, value == nil && known && !field.mayBeNull():
			delete(object, name)
		default:
			field.complete(value, whole)
		}
	}
	if !whole {
		return
	}
	for name, field := range s.fields {
		if _, there := object[name]; there || field == nil || field.value == nil {
			continue
		}
		value := runtime.DeepCopyJSONValue(field.value)
		field.complete(value, whole)
		object[name] = value
	}
}

func (s *shape) field(name string) (of *shape, known bool) {
	if of, known = s.fields[name]; known {
		return of, true
	}
	return s.every, s.every != nil
}

// fillIn fills in all defaults, and drops null where it may not be, as a server
// does before it stores an object.
func (s *shape) fillIn(value any) {
	if s == nil {
		return
	}
	switch value := value.(type) {
	case map[string]any:
		for name, have := range value {
			if field, _ := s.field(name); have == nil && field != nil && !field.nullable {
				delete(value, name)
			}
		}
		for name, field := range s.fields {
			if _, there := value[name]; !there && field != nil && field.value != nil {
				value[name] = runtime.DeepCopyJSONValue(field.value)
			}
		}
		for name, have := range value {
			field, _ := s.field(name)
			field.fillIn(have)
		}
	case []any:
		for _, item := range value {
			s.items.fillIn(item)
		}
	}
}

func (s *shape) mayBeNull() bool { return s != nil && s.nullable }
