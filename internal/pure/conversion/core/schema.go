// SPDX-License-Identifier: Apache-2.0

package core

import (
	clusterv1beta1 "github.com/capstan-dev/capstan/api/core/v1beta1"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/conversion/rules"
)

// schemaUp converts a schema and those in it. before is the one at the same
// place in what was kept, zero without one.
func schemaUp(from *clusterv1beta1.JSONSchemaProps, to *clusterv1.JSONSchemaProps, before clusterv1.JSONSchemaProps) {
	*to = clusterv1.JSONSchemaProps{
		Description: from.Description, Example: from.Example, Type: from.Type,
		MaxProperties: from.MaxProperties, MinProperties: from.MinProperties, Required: from.Required,
		MaxItems: from.MaxItems, MinItems: from.MinItems, UniqueItems: rules.Meant(from.UniqueItems, before.UniqueItems),
		Format: from.Format, MaxLength: from.MaxLength, MinLength: from.MinLength, Pattern: from.Pattern,
		Maximum: from.Maximum, ExclusiveMaximum: rules.Meant(from.ExclusiveMaximum, before.ExclusiveMaximum),
		Minimum: from.Minimum, ExclusiveMinimum: rules.Meant(from.ExclusiveMinimum, before.ExclusiveMinimum),
		XPreserveUnknownFields: rules.Meant(from.XPreserveUnknownFields, before.XPreserveUnknownFields),
		Enum:                   from.Enum, Default: from.Default,
		XValidations: rules.List(from.XValidations, func(from *clusterv1beta1.ValidationRule, to *clusterv1.ValidationRule) {
			*to = clusterv1.ValidationRule(*from)
		}),
		XMetadata:    clusterv1.VariableSchemaMetadata(rules.Value(from.XMetadata)),
		XIntOrString: rules.Meant(from.XIntOrString, before.XIntOrString),

		AdditionalProperties: nestedUp(from.AdditionalProperties, before.AdditionalProperties),
		Items:                nestedUp(from.Items, before.Items),
		AllOf:                alternativesUp(from.AllOf, before.AllOf),
		OneOf:                alternativesUp(from.OneOf, before.OneOf),
		AnyOf:                alternativesUp(from.AnyOf, before.AnyOf),
		Not:                  nestedUp(from.Not, before.Not),
	}
	if from.Properties != nil {
		to.Properties = make(map[string]clusterv1.JSONSchemaProps, len(from.Properties))
		for name, p := range from.Properties {
			var property clusterv1.JSONSchemaProps
			schemaUp(&p, &property, before.Properties[name])
			to.Properties[name] = property
		}
	}
}

func nestedUp(from *clusterv1beta1.JSONSchemaProps, before *clusterv1.JSONSchemaProps) *clusterv1.JSONSchemaProps {
	if from == nil {
		return nil
	}
	to := &clusterv1.JSONSchemaProps{}
	schemaUp(from, to, rules.Value(before))
	return to
}

// alternativesUp restores alternatives by index; before may be shorter.
func alternativesUp(from []clusterv1beta1.JSONSchemaProps, before []clusterv1.JSONSchemaProps) []clusterv1.JSONSchemaProps {
	i := -1
	return rules.List(from, func(from *clusterv1beta1.JSONSchemaProps, to *clusterv1.JSONSchemaProps) {
		i++
		schemaUp(from, to, rules.At(before, i))
	})
}

func definitionDown(required *bool, metadata clusterv1.ClusterClassVariableMetadata, schema *clusterv1.VariableSchema) clusterv1beta1.VariableDefinition {
	to := clusterv1beta1.VariableDefinition{Required: rules.Value(required), Metadata: clusterv1beta1.VariableMetadata(metadata)}
	schemaDown(&schema.OpenAPIV3Schema, &to.Schema.OpenAPIV3Schema)
	return to
}

func schemaDown(from *clusterv1.JSONSchemaProps, to *clusterv1beta1.JSONSchemaProps) {
	*to = clusterv1beta1.JSONSchemaProps{
		Description: from.Description, Example: from.Example, Type: from.Type,
		MaxProperties: from.MaxProperties, MinProperties: from.MinProperties, Required: from.Required,
		MaxItems: from.MaxItems, MinItems: from.MinItems, UniqueItems: rules.Value(from.UniqueItems),
		Format: from.Format, MaxLength: from.MaxLength, MinLength: from.MinLength, Pattern: from.Pattern,
		Maximum: from.Maximum, ExclusiveMaximum: rules.Value(from.ExclusiveMaximum),
		Minimum: from.Minimum, ExclusiveMinimum: rules.Value(from.ExclusiveMinimum),
		XPreserveUnknownFields: rules.Value(from.XPreserveUnknownFields),
		Enum:                   from.Enum, Default: from.Default,
		XValidations: rules.List(from.XValidations, func(from *clusterv1.ValidationRule, to *clusterv1beta1.ValidationRule) {
			*to = clusterv1beta1.ValidationRule(*from)
		}),
		XMetadata:    rules.Pointer(clusterv1beta1.VariableMetadata(from.XMetadata)),
		XIntOrString: rules.Value(from.XIntOrString),

		AdditionalProperties: nestedDown(from.AdditionalProperties),
		Items:                nestedDown(from.Items),
		AllOf:                rules.List(from.AllOf, schemaDown),
		OneOf:                rules.List(from.OneOf, schemaDown),
		AnyOf:                rules.List(from.AnyOf, schemaDown),
		Not:                  nestedDown(from.Not),
	}
	if from.Properties != nil {
		to.Properties = make(map[string]clusterv1beta1.JSONSchemaProps, len(from.Properties))
		for name, p := range from.Properties {
			var property clusterv1beta1.JSONSchemaProps
			schemaDown(&p, &property)
			to.Properties[name] = property
		}
	}
}

func nestedDown(from *clusterv1.JSONSchemaProps) *clusterv1beta1.JSONSchemaProps {
	if from == nil {
		return nil
	}
	to := &clusterv1beta1.JSONSchemaProps{}
	schemaDown(from, to)
	return to
}
