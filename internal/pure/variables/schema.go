// SPDX-License-Identifier: Apache-2.0

// Package variables decides on the variables of a ClusterClass: whether a definition is
// valid, how the definitions of several sources combine, which values a Cluster gets by
// default, and which it can have.
//
// A schema has the features of a CustomResourceDefinition's schema, without those that
// do not apply to a value, and the rules for both are those of the API server: its own
// functions are called, with a CustomResourceDefinition whose only field is the
// variable. So class authors get familiar messages.
//
// A definition is compiled once, into a Compiled; callers cache it by Key.
package variables

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// each calls do for a schema and all nested schemas, parents first, with the path in the
// schema.
func each(at string, s *clusterv1.JSONSchemaProps, do func(at string, s *clusterv1.JSONSchemaProps)) {
	do(at, s)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		each(fmt.Sprintf("%s.properties[%s]", at, name), &p, do)
		s.Properties[name] = p
	}
	for _, one := range []struct {
		name string
		s    *clusterv1.JSONSchemaProps
	}{{"additionalProperties", s.AdditionalProperties}, {"items", s.Items}, {"not", s.Not}} {
		if one.s != nil {
			each(at+"."+one.name, one.s, do)
		}
	}
	for _, many := range []struct {
		name string
		all  []clusterv1.JSONSchemaProps
	}{{"allOf", s.AllOf}, {"oneOf", s.OneOf}, {"anyOf", s.AnyOf}} {
		for i := range many.all {
			each(fmt.Sprintf("%s.%s[%d]", at, many.name, i), &many.all[i], do)
		}
	}
}

// normal is a schema without fields that are false: these mean the same as unset.
func normal(s clusterv1.JSONSchemaProps) clusterv1.JSONSchemaProps {
	out := s.DeepCopy()
	each("", out, func(_ string, s *clusterv1.JSONSchemaProps) {
		for _, b := range []**bool{&s.UniqueItems, &s.ExclusiveMaximum, &s.ExclusiveMinimum, &s.XPreserveUnknownFields, &s.XIntOrString} {
			if !ptr.Deref(*b, false) {
				*b = nil
			}
		}
	})
	return *out
}

// internal is a schema in the form that the functions of the API server take.
func internal(s clusterv1.JSONSchemaProps) (*apiextensions.JSONSchemaProps, error) {
	text, err := json.Marshal(normal(s))
	if err != nil {
		return nil, err
	}
	v1, out := &apiextensionsv1.JSONSchemaProps{}, &apiextensions.JSONSchemaProps{}
	if err := json.Unmarshal(text, v1); err != nil {
		return nil, err
	}
	return out, apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v1, out, nil)
}

// Key identifies a schema: equivalent schemas have the same key.
func Key(s clusterv1.VariableSchema) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(canonical(normal(s.OpenAPIV3Schema)))))
}

// canonical is the JSON of v with sorted object keys.
func canonical(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error() // it contains invalid JSON, which the API server never stores
	}
	var any any
	if json.Unmarshal(text, &any) == nil {
		text, _ = json.Marshal(any)
	}
	return string(text)
}

// decode decodes a JSON value, with integers as int64. Empty input is null.
func decode(raw []byte) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var out apiextensions.JSON
	err := apiextensionsv1.Convert_v1_JSON_To_apiextensions_JSON(&apiextensionsv1.JSON{Raw: raw}, &out, nil)
	return any(out), err
}

// endless is the context for CEL: it has no deadline, because the cost limit bounds a
// rule.
type endless struct{}

func (endless) Deadline() (time.Time, bool) { return time.Time{}, false }
func (endless) Done() <-chan struct{}       { return nil }
func (endless) Err() error                  { return nil }
func (endless) Value(any) any               { return nil }
