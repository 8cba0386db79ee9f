// SPDX-License-Identifier: Apache-2.0

package ssadiff

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// shape is the part of a schema that is needed to complete an intent; the schema itself
// is several times as large. Metadata has none: it gets no defaults.
type shape struct {
	atomic   bool // merged as one value
	closed   bool // an object without declared or preserved fields
	keeps    bool // it preserves undeclared fields
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

// atomic reports whether an API server merges a value of s as a whole.
func atomic(s *spec.Schema) bool {
	if s.Type.Contains("array") {
		kind, _ := s.Extensions["x-kubernetes-list-type"].(string)
		return kind != "map" && kind != "set"
	}
	kind, _ := s.Extensions["x-kubernetes-map-type"].(string)
	return kind == "atomic"
}

// complete converts a value, in place, to the form that the server would store, so that
// a comparison has the same result here and there:
//
//   - null is dropped if the schema is not nullable: the server drops it or sets the
//     default, but would still record it as owned;
//   - fields of an object without declared or preserved fields are dropped: the merge
//     accepts them, pruning removes them, and the field set would permanently contain
//     fields that never exist;
//   - defaults are set in values that are merged as a whole (whole): the server sets
//     them after the merge, and the values would differ. In other values they are not
//     set, since that would own fields that are not in the intent.
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

// fillIn sets all defaults, and drops null where it is not permitted, as a server does
// before it stores an object.
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
