// SPDX-License-Identifier: Apache-2.0

// Package openapi describes the served kinds as OpenAPI documents, built from their
// Go types: enough for kubectl to validate, apply and explain. Documents are built
// at the first request, and shared by all clusters.
package openapi

import (
	"reflect"
	"strings"
)

type doc = map[string]any

// schemas collects the definitions that others refer to.
type schemas map[string]any

const refPrefix = "#/components/schemas/"

type (
	named      interface{ OpenAPIModelName() string }
	documented interface{ SwaggerDoc() map[string]string }
	formatted  interface {
		OpenAPISchemaType() []string
		OpenAPISchemaFormat() string
	}
)

// of describes a type, adding what it refers to.
func (s schemas) of(t reflect.Type) doc {
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return doc{"type": "string", "format": "byte"}
		}
		return doc{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return doc{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		return s.structure(t)
	case reflect.Bool:
		return doc{"type": "boolean"}
	case reflect.Int64, reflect.Int:
		return doc{"type": "integer", "format": "int64"}
	case reflect.Int32, reflect.Int16, reflect.Int8, reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return doc{"type": "integer", "format": "int32"}
	case reflect.Float64, reflect.Float32:
		return doc{"type": "number", "format": "double"}
	case reflect.Interface:
		return doc{}
	}
	return doc{"type": "string"}
}

// structure describes a struct: by the description that it declares, or by its
// fields under a separate name.
func (s schemas) structure(t reflect.Type) doc {
	zero := reflect.New(t).Elem().Interface()
	if f, ok := zero.(formatted); ok && len(f.OpenAPISchemaType()) > 0 {
		d := doc{"type": f.OpenAPISchemaType()[0]}
		if format := f.OpenAPISchemaFormat(); format != "" {
			d["format"] = format
		}
		return d
	}
	name := modelName(t)
	if _, ok := s[name]; !ok {
		s[name] = nil // so that a type that refers to itself ends
		s[name] = s.fields(t)
	}
	return doc{"$ref": refPrefix + name}
}

func (s schemas) fields(t reflect.Type) doc {
	docs := map[string]string{}
	if d, ok := reflect.New(t).Elem().Interface().(documented); ok {
		docs = d.SwaggerDoc()
	}
	properties, required := doc{}, []string{}
	s.collect(t, docs, properties, &required)
	d := doc{"type": "object", "properties": properties}
	if text := docs[""]; text != "" {
		d["description"] = text
	}
	if len(required) > 0 {
		d["required"] = required
	}
	return d
}

// collect describes the fields of a struct, and those of the structs it
// embeds, as encoding/json sees them.
func (s schemas) collect(t reflect.Type, docs map[string]string, properties doc, required *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		if name == "" {
			if f.Anonymous && f.Type.Kind() == reflect.Struct {
				inner := map[string]string{}
				if d, ok := reflect.New(f.Type).Elem().Interface().(documented); ok {
					inner = d.SwaggerDoc()
				}
				s.collect(f.Type, inner, properties, required)
			}
			continue
		}
		p := s.of(f.Type)
		extra := doc{}
		if strategy := f.Tag.Get("patchStrategy"); strategy != "" {
			extra["x-kubernetes-patch-strategy"] = strategy
		}
		if key := f.Tag.Get("patchMergeKey"); key != "" {
			extra["x-kubernetes-patch-merge-key"] = key
		}
		if text := docs[name]; text != "" {
			extra["description"] = text
		}
		properties[name] = with(p, extra)
		if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
			*required = append(*required, name)
		}
	}
}

// with adds to a description what its place adds. A reference must have no sibling,
// so it becomes a part.
func with(p, extra doc) doc {
	if len(extra) == 0 {
		return p
	}
	if _, ref := p["$ref"]; ref {
		p = doc{"allOf": []any{p}}
	}
	for k, v := range extra {
		p[k] = v
	}
	return p
}

func modelName(t reflect.Type) string {
	if n, ok := reflect.New(t).Elem().Interface().(named); ok {
		return n.OpenAPIModelName()
	}
	return strings.ReplaceAll(t.PkgPath(), "/", ".") + "." + t.Name()
}
