// SPDX-License-Identifier: Apache-2.0

package decisions

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// ours is part of the import path of each package of planners.
const ours = "/internal/"

// Plain converts a plan to a value with a short JSON form: an action becomes its text,
// an object its name, and fields without a value are omitted.
func Plain(plan any) any { return plain(reflect.ValueOf(plan)) }

func plain(v reflect.Value) any {
	if !v.IsValid() {
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
	}
	if v.CanInterface() {
		switch x := v.Interface().(type) {
		case encoding.TextMarshaler, json.Marshaler:
			return x
		case error:
			return x.Error()
		}
		if x, is := v.Interface().(fmt.Stringer); is && strings.Contains(pkgPath(v.Type()), ours) {
			return x.String()
		}
		if x, is := v.Interface().(interface{ GetName() string }); is {
			return x.GetName()
		}
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return plain(v.Elem())
	case reflect.Slice, reflect.Array:
		out := make([]any, 0, v.Len())
		for i := range v.Len() {
			out = append(out, plain(v.Index(i)))
		}
		return out
	case reflect.Map:
		out := map[string]any{}
		for it := v.MapRange(); it.Next(); {
			out[key(it.Key())] = plain(it.Value())
		}
		return out
	case reflect.Struct:
		if strings.Contains(pkgPath(v.Type()), ours) {
			out := map[string]any{}
			fields(v, out)
			return out
		}
	}
	return v.Interface()
}

// key is the text of the key of a map; the fields of a struct are joined.
func key(v reflect.Value) string {
	if v.Kind() != reflect.Struct {
		return fmt.Sprint(v.Interface())
	}
	parts := make([]string, v.NumField())
	for i := range parts {
		parts[i] = key(v.Field(i))
	}
	return strings.Join(parts, "/")
}

// pkgPath is the package of a type, or of what it points to.
func pkgPath(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.PkgPath()
}

// fields adds the fields that have a value, by their names in JSON.
func fields(v reflect.Value, out map[string]any) {
	for i := range v.NumField() {
		field, name := v.Type().Field(i), ""
		if field.Anonymous && v.Field(i).Kind() == reflect.Struct {
			fields(v.Field(i), out)
			continue
		}
		if name, _, _ = strings.Cut(field.Tag.Get("json"), ","); name == "" {
			name = strings.ToLower(field.Name[:1]) + field.Name[1:]
		}
		if field.IsExported() && name != "-" && !v.Field(i).IsZero() {
			out[name] = plain(v.Field(i))
		}
	}
}

// passing are the names of fields, in lower case, whose values change without a change
// of the decision: when to requeue, and versions of objects.
var passing = map[string]bool{
	"after": true, "again": true, "look": true, "lookat": true, "lookagain": true, "retryafter": true, "due": true,
	"resourceversion": true, "generation": true, "observedgeneration": true, "managedfields": true,
}

// AnyTime replaces times in the result of Lasting.
const AnyTime = "time"

// Lasting returns the JSON of a value without what changes although the decision stays
// the same: times, delays and versions.
func Lasting(text json.RawMessage) json.RawMessage {
	v, err := Decode(text)
	if err != nil {
		return text
	}
	out, err := Encode(lasting(v))
	if err != nil {
		return text
	}
	return out
}

func lasting(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if passing[strings.ToLower(name)] {
				delete(v, name)
			} else {
				v[name] = lasting(value)
			}
		}
	case []any:
		for i := range v {
			v[i] = lasting(v[i])
		}
	case string:
		if _, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return AnyTime
		}
	}
	return v
}

// Decode reads JSON, with numbers as they are written.
func Decode(text []byte) (v any, err error) {
	if len(text) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// Words are the lines of the JSON of a plan, its actions first.
func Words(plan json.RawMessage) []string {
	v, err := Decode(plan)
	if err != nil {
		return []string{"unreadable plan: " + err.Error()}
	}
	var lines []string
	switch v := v.(type) {
	case nil:
	case []any:
		lines = texts(v)
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			switch {
			case name == "action" || name == "actions":
				lines = append(texts(v[name]), lines...)
			default:
				lines = append(lines, name+": "+strings.Join(texts(v[name]), "; "))
			}
		}
	default:
		lines = texts(v)
	}
	if len(lines) == 0 {
		return []string{"nothing to do"}
	}
	return lines
}

// texts are the elements of a list, or a single value, as people read them.
func texts(v any) (out []string) {
	if all, is := v.([]any); is {
		for _, each := range all {
			out = append(out, texts(each)...)
		}
		return out
	}
	return []string{Text(v)}
}

// Text is a value as people read it. Large numbers are durations.
func Text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		if n, err := v.Int64(); err == nil && n >= int64(time.Millisecond) {
			return time.Duration(n).String()
		}
		return v.String()
	}
	text, err := Encode(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
