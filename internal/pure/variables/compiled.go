// SPDX-License-Identifier: Apache-2.0

package variables

import (
	"encoding/json"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Budget is the total cost limit of the rules for all values of one Cluster.
const Budget = int64(celconfig.RuntimeCELCostBudget)

// value is the field that holds the value: the API server's functions require an object.
const value = "value"

// Compiled is a schema ready for use. It may be shared.
type Compiled struct {
	schema *schema.Structural
	whole  *schema.Structural // of an object with the value as its field
	types  validation.SchemaValidator
	rules  *cel.Validator // nil without rules
}

// Compile prepares a schema for use. Its error only says that a schema cannot be used at
// all: Check finds mistakes.
func Compile(s clusterv1.VariableSchema) (*Compiled, error) {
	props, err := internal(s.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	structural, err := schema.NewStructural(props)
	if err != nil {
		return nil, err
	}
	types, _, err := validation.NewSchemaValidator(props)
	if err != nil {
		return nil, err
	}
	return &Compiled{
		schema: structural,
		whole:  &schema.Structural{Generic: schema.Generic{Type: "object"}, Properties: map[string]schema.Structural{value: *structural}},
		types:  types,
		rules:  cel.NewValidator(structural, false, celconfig.PerCallLimit),
	}, nil
}

// fill sets the defaults. Without a value, the schema's own default is the value; there
// may be none. A complete value is unchanged, byte for byte.
func (c *Compiled) fill(v *apiextensionsv1.JSON) (*apiextensionsv1.JSON, error) {
	object := map[string]any{}
	var before any
	if v != nil {
		var err error
		if before, err = decode(v.Raw); err != nil {
			return nil, err
		}
		again, _ := decode(v.Raw) // defaults are put into it
		object[value] = again
	}
	defaulting.Default(object, c.whole)
	after, ok := object[value]
	if !ok || v != nil && equality.Semantic.DeepEqual(before, after) {
		return v, nil
	}
	raw, err := json.Marshal(after)
	return &apiextensionsv1.JSON{Raw: raw}, err
}

// check returns the errors of a value, and the part of budget that its rules left.
func (c *Compiled) check(at *field.Path, name string, v, old any, budget int64) (field.ErrorList, int64) {
	options := schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	clone := schema.JSON{Object: v}.DeepCopy().Object
	if unknown := pruning.PruneWithOptions(clone, c.schema, false, options); len(unknown) > 0 {
		return field.ErrorList{field.Invalid(at, shown(v), fmt.Sprintf("failed validation: %q field(s) are not specified in the variable schema of variable %q", strings.Join(unknown, ","), name))}, budget
	}
	if errs := validation.ValidateCustomResource(at, v, c.types); len(errs) > 0 || c.rules == nil {
		return errs, budget
	}
	return c.rules.Validate(endless{}, at, c.schema, v, old, budget)
}

// shown is a value as messages show it.
func shown(v any) string {
	text, _ := json.Marshal(v) // it was JSON
	return string(text)
}
