// SPDX-License-Identifier: Apache-2.0

// Package contract provides typed access to the fields of the Cluster API contracts in
// provider objects, which the core only reads as unstructured.
//
// A contract version is a value, not a branch: to read a field, select the value for the
// version (InfraClusterFor and similar functions) and read the field through it. Adding a
// version means adding a value, and no caller changes. The CRDs of a provider name the
// versions that it implements; Choose reads them there.
package contract

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Field is one field of a contract, of type T, at a fixed path. The zero value is a field
// that the contract version does not have: it is never found.
type Field[T any] struct {
	path   []string
	decode func(raw any) (T, error)
	encode func(T) any
	check  func(at *field.Path, v T) *field.Error // of what is read; nil accepts all
}

// At returns the field at a dotted path, such as "status.ready".
func At[T any](path string) Field[T] { return Field[T]{path: strings.Split(path, ".")} }

// through returns a field whose form on the wire differs from T.
func through[T any](path string, decode func(raw any) (T, error), encode func(T) any) Field[T] {
	return Field[T]{path: strings.Split(path, "."), decode: decode, encode: encode}
}

// Get reads the field. ok is false when the object does not have it, which is never an
// error: most fields are optional. A value that the API of Cluster API does not accept
// where it is copied to is an error.
func (f Field[T]) Get(obj *unstructured.Unstructured) (v T, ok bool, err error) {
	if len(f.path) == 0 {
		return v, false, nil
	}
	raw, ok, err := unstructured.NestedFieldNoCopy(obj.Object, f.path...)
	if err != nil || !ok || raw == nil {
		return v, false, f.wrap("read", obj, err)
	}
	if f.decode != nil {
		v, err = f.decode(raw)
	} else if v, ok = raw.(T); !ok {
		err = convert(raw, &v) // structs, lists and int32 are converted through JSON
	}
	if err != nil {
		return v, false, f.wrap("decode", obj, err)
	}
	if f.check != nil {
		if bad := f.check(field.NewPath(f.path[0], f.path[1:]...), v); bad != nil {
			var none T
			return none, false, f.wrap("read", obj, bad)
		}
	}
	return v, true, nil
}

// Set writes the field, and creates missing maps on its path.
func (f Field[T]) Set(obj *unstructured.Unstructured, v T) error {
	if len(f.path) == 0 {
		return fmt.Errorf("set a field of %s %s that its contract version does not have", obj.GetKind(), obj.GetName())
	}
	var raw any
	if f.encode != nil {
		raw = f.encode(v)
	} else if f.decode != nil {
		return fmt.Errorf("set %s of %s %s: this field is only read", f, obj.GetKind(), obj.GetName())
	} else if err := convert(v, &raw); err != nil {
		return f.wrap("encode", obj, err)
	}
	if obj.Object == nil {
		obj.Object = map[string]any{}
	}
	return f.wrap("set", obj, unstructured.SetNestedField(obj.Object, normalise(raw), f.path...))
}

// String returns the dotted path.
func (f Field[T]) String() string { return strings.Join(f.path, ".") }

// Path returns a copy of the path.
func (f Field[T]) Path() []string { return slices.Clone(f.path) }

func (f Field[T]) wrap(verb string, obj *unstructured.Unstructured, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s of %s %s: %w", verb, f, obj.GetKind(), obj.GetName(), err)
}

func convert(from, to any) error {
	b, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, to)
}

// normalise turns whole numbers from JSON into int64, which is what
// unstructured objects hold.
func normalise(v any) any {
	switch v := v.(type) {
	case float64:
		if i := int64(v); float64(i) == v {
			return i
		}
	case int32:
		return int64(v)
	case map[string]any:
		for k := range v {
			v[k] = normalise(v[k])
		}
	case []any:
		for i := range v {
			v[i] = normalise(v[i])
		}
	}
	return v
}
