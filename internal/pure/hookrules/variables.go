// SPDX-License-Identifier: Apache-2.0

package hookrules

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

const (
	reservedVariable = "builtin"
	longestName      = 256 // as in the schema of a ClusterClass
)

// VariableNames reports what is wrong with the names of variables.
func VariableNames(variables []clusterv1.ClusterClassVariable) error {
	var errs []error
	seen := map[string]bool{}
	for i, v := range variables {
		switch {
		case v.Name == "":
			errs = append(errs, fmt.Errorf("variables[%d] has no name", i))
		case seen[v.Name]:
			errs = append(errs, fmt.Errorf("variables[%d]: %q is there already", i, v.Name))
		case v.Name == reservedVariable:
			errs = append(errs, fmt.Errorf("variables[%d]: %q is reserved", i, v.Name))
		case strings.Contains(v.Name, "."):
			errs = append(errs, fmt.Errorf("variables[%d]: %q has a dot, which separates a variable from its fields", i, v.Name))
		case len(v.Name) > longestName:
			errs = append(errs, fmt.Errorf("variables[%d]: its name has %d characters, more than %d", i, len(v.Name), longestName))
		}
		seen[v.Name] = true
	}
	return errors.Join(errs...)
}

// VariableSchemas reports which variables do not say whether they are required,
// or have a schema that is not structural, as that of a
// CustomResourceDefinition has to be.
func VariableSchemas(variables []clusterv1.ClusterClassVariable) error {
	var errs []error
	for i, v := range variables {
		if v.Required == nil {
			errs = append(errs, fmt.Errorf("variables[%d], %s: it does not say whether it is required", i, v.Name))
		}
		if err := errors.Join(known("schema", v.Schema.OpenAPIV3Schema), structural(v.Schema.OpenAPIV3Schema)); err != nil {
			errs = append(errs, fmt.Errorf("variables[%d], %s: %w", i, v.Name, err))
		}
	}
	return errors.Join(errs...)
}

var schemaTypes = []string{"", "array", "boolean", "integer", "number", "object", "string"}

// known reports types that do not exist, and fields beside those of a map, at
// all levels.
func known(path string, props clusterv1.JSONSchemaProps) error {
	var errs []error
	if !slices.Contains(schemaTypes, props.Type) {
		errs = append(errs, fmt.Errorf("%s: there is no type %q", path, props.Type))
	}
	if len(props.Properties) > 0 && props.AdditionalProperties != nil {
		errs = append(errs, fmt.Errorf("%s: properties and additionalProperties exclude each other", path))
	}
	for _, name := range slices.Sorted(maps.Keys(props.Properties)) {
		errs = append(errs, known(path+"."+name, props.Properties[name]))
	}
	for _, of := range []*clusterv1.JSONSchemaProps{props.Items, props.AdditionalProperties} {
		if of != nil {
			errs = append(errs, known(path+"[]", *of))
		}
	}
	return errors.Join(errs...)
}

func structural(props clusterv1.JSONSchemaProps) error {
	text, err := json.Marshal(props)
	if err != nil {
		return err
	}
	var v1 apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal(text, &v1); err != nil {
		return err
	}
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&v1, &internal, nil); err != nil {
		return err
	}
	tree, err := schema.NewStructural(&internal)
	if err != nil {
		return err
	}
	// The root of such a schema is an object; what a variable has is a field.
	whole := &schema.Structural{Generic: schema.Generic{Type: "object"}, Properties: map[string]schema.Structural{"variable": *tree}}
	return schema.ValidateStructural(field.NewPath("schema"), whole).ToAggregate()
}
