// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// FieldValueErrorReason is a machine-readable reason for a value that was refused.
type FieldValueErrorReason string

// Reasons that a validation rule of a variable may give.
const (
	FieldValueRequired  FieldValueErrorReason = "FieldValueRequired"
	FieldValueDuplicate FieldValueErrorReason = "FieldValueDuplicate"
	FieldValueInvalid   FieldValueErrorReason = "FieldValueInvalid"
	FieldValueForbidden FieldValueErrorReason = "FieldValueForbidden"
)

// ClusterClassVariable defines a variable.
type ClusterClassVariable struct {
	// name of the variable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`

	// required specifies whether a Cluster must set the variable.
	// +required
	Required *bool `json:"required,omitempty"`

	// deprecatedV1Beta1Metadata is metadata where v1beta1 had it; new classes use x-metadata in the
	// schema.
	// +optional
	DeprecatedV1Beta1Metadata ClusterClassVariableMetadata `json:"deprecatedV1Beta1Metadata,omitempty,omitzero"`

	// schema that values are validated against.
	// +required
	Schema VariableSchema `json:"schema,omitempty,omitzero"`
}

// ClusterClassVariableMetadata is metadata of a variable where v1beta1 had it.
// +kubebuilder:validation:MinProperties=1
type ClusterClassVariableMetadata struct {
	// labels for finding and grouping variables.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// annotations for tools.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ClusterClassStatusVariable is a variable as all its sources define it.
type ClusterClassStatusVariable struct {
	// name of the variable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`

	// definitionsConflict reports whether the sources disagree.
	// +optional
	DefinitionsConflict *bool `json:"definitionsConflict,omitempty"`

	// definitions of the variable, one for each source.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Definitions []ClusterClassStatusVariableDefinition `json:"definitions,omitempty"`
}

// ClusterClassStatusVariableDefinition is how one source defines a variable.
type ClusterClassStatusVariableDefinition struct {
	// from is the source: inline, or the name of a patch.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	From string `json:"from,omitempty"`

	// required specifies whether a Cluster must set the variable.
	// +required
	Required *bool `json:"required,omitempty"`

	// deprecatedV1Beta1Metadata is metadata where v1beta1 had it.
	// +optional
	DeprecatedV1Beta1Metadata ClusterClassVariableMetadata `json:"deprecatedV1Beta1Metadata,omitempty,omitzero"`

	// schema that values are validated against.
	// +required
	Schema VariableSchema `json:"schema,omitempty,omitzero"`
}

// VariableSchema is the schema of a variable.
type VariableSchema struct {
	// openAPIV3Schema is the schema, as in a CustomResourceDefinition.
	// +required
	OpenAPIV3Schema JSONSchemaProps `json:"openAPIV3Schema,omitempty,omitzero"`
}

// JSONSchemaProps is a JSON schema: the part of it that CustomResourceDefinitions know. The fields
// mean what they mean there.
// +kubebuilder:validation:MinProperties=1
type JSONSchemaProps struct {
	// description is for people.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Description string `json:"description,omitempty"`

	// example is a value for people to see.
	// +optional
	Example *apiextensionsv1.JSON `json:"example,omitempty"`

	// type of the value.
	// +optional
	// +kubebuilder:validation:Enum=object;array;string;integer;number;boolean
	Type string `json:"type,omitempty"`

	// properties are the schemas of the fields of an object.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Properties map[string]JSONSchemaProps `json:"properties,omitempty"`

	// additionalProperties is the schema of the values of a map; excludes properties.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	AdditionalProperties *JSONSchemaProps `json:"additionalProperties,omitempty"`

	// maxProperties is the most fields an object may have.
	// +optional
	MaxProperties *int64 `json:"maxProperties,omitempty"`

	// minProperties is the fewest fields an object may have.
	// +optional
	MinProperties *int64 `json:"minProperties,omitempty"`

	// required are the fields that an object must have.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	Required []string `json:"required,omitempty"`

	// items is the schema of the items of an array.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Items *JSONSchemaProps `json:"items,omitempty"`

	// maxItems is the most items an array may have.
	// +optional
	MaxItems *int64 `json:"maxItems,omitempty"`

	// minItems is the fewest items an array may have.
	// +optional
	MinItems *int64 `json:"minItems,omitempty"`

	// uniqueItems specifies whether the items of an array must differ.
	// +optional
	UniqueItems *bool `json:"uniqueItems,omitempty"`

	// format of a string, such as date-time; unknown ones are ignored.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	Format string `json:"format,omitempty"`

	// maxLength is the most characters a string may have.
	// +optional
	MaxLength *int64 `json:"maxLength,omitempty"`

	// minLength is the fewest characters a string may have.
	// +optional
	MinLength *int64 `json:"minLength,omitempty"`

	// pattern is a regular expression that a string must match.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Pattern string `json:"pattern,omitempty"`

	// maximum of a number.
	// +optional
	Maximum *int64 `json:"maximum,omitempty"`

	// exclusiveMaximum specifies whether maximum itself is refused.
	// +optional
	ExclusiveMaximum *bool `json:"exclusiveMaximum,omitempty"`

	// minimum of a number.
	// +optional
	Minimum *int64 `json:"minimum,omitempty"`

	// exclusiveMinimum specifies whether minimum itself is refused.
	// +optional
	ExclusiveMinimum *bool `json:"exclusiveMinimum,omitempty"`

	// x-kubernetes-preserve-unknown-fields keeps fields that the schema does not name.
	// +optional
	XPreserveUnknownFields *bool `json:"x-kubernetes-preserve-unknown-fields,omitempty"`

	// enum are the values allowed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Enum []apiextensionsv1.JSON `json:"enum,omitempty"`

	// default is the value when none is set.
	// +optional
	Default *apiextensionsv1.JSON `json:"default,omitempty"`

	// x-kubernetes-validations are CEL rules that must hold.
	// +optional
	// +listType=map
	// +listMapKey=rule
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	XValidations []ValidationRule `json:"x-kubernetes-validations,omitempty"`

	// x-metadata is metadata for tools.
	// +optional
	XMetadata VariableSchemaMetadata `json:"x-metadata,omitempty,omitzero"`

	// x-kubernetes-int-or-string allows an integer or a string; excludes type.
	// +optional
	XIntOrString *bool `json:"x-kubernetes-int-or-string,omitempty"`

	// allOf are schemas that must all hold.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	AllOf []JSONSchemaProps `json:"allOf,omitempty"`

	// oneOf are schemas of which exactly one must hold.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	OneOf []JSONSchemaProps `json:"oneOf,omitempty"`

	// anyOf are schemas of which one at least must hold.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	AnyOf []JSONSchemaProps `json:"anyOf,omitempty"`

	// not is a schema that must not hold.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Not *JSONSchemaProps `json:"not,omitempty"`
}

// VariableSchemaMetadata is metadata of a variable or of one of its fields.
// +kubebuilder:validation:MinProperties=1
type VariableSchemaMetadata struct {
	// labels for finding and grouping variables.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// annotations for tools.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ValidationRule is a CEL rule that a value must satisfy.
type ValidationRule struct {
	// rule is a CEL expression over self.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Rule string `json:"rule,omitempty"`

	// message describes the problem.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`

	// messageExpression is a CEL expression that computes the message; it takes
	// precedence over message.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	MessageExpression string `json:"messageExpression,omitempty"`

	// reason for programs.
	// +optional
	// +kubebuilder:validation:Enum=FieldValueInvalid;FieldValueForbidden;FieldValueRequired;FieldValueDuplicate
	// +kubebuilder:default=FieldValueInvalid
	Reason FieldValueErrorReason `json:"reason,omitempty"`

	// fieldPath names the field that the refusal is about.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	FieldPath string `json:"fieldPath,omitempty"`
}
