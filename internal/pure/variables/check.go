// SPDX-License-Identifier: Apache-2.0

package variables

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
)

const (
	// Builtin is the name of the variable that the topology itself provides to patches.
	Builtin = "builtin"

	// The API's limits for a class, which apply to the answers of extensions too.
	maxVariables, maxName = 1000, 256

	// maxMessage is the maximum length of a rule's message.
	maxMessage = 2048
)

// Check returns what is wrong with the definitions of one source. old are its previous
// definitions: an unchanged rule is validated as it was then.
func Check(at *field.Path, all, old []clusterv1.ClusterClassVariable) field.ErrorList {
	if len(all) > maxVariables {
		return field.ErrorList{field.TooMany(at, len(all), maxVariables)}
	}
	return append(CheckNames(at, all), CheckSchemas(at, all, old)...)
}

// CheckNames is the part of Check for names.
func CheckNames(at *field.Path, all []clusterv1.ClusterClassVariable) (errs field.ErrorList) {
	seen := map[string]bool{}
	for i := range all {
		name, here := all[i].Name, at.Index(i).Child("name")
		switch {
		case name == "":
			errs = append(errs, field.Required(here, "a variable needs a name"))
		case len(name) > maxName:
			errs = append(errs, field.TooLong(here, name, maxName))
		case name == Builtin:
			errs = append(errs, field.Invalid(here, name, fmt.Sprintf("%q is the name of the variables that every Cluster has; choose another", Builtin)))
		case strings.Contains(name, "."):
			errs = append(errs, field.Invalid(here, name, "must not contain a dot, which separates a variable from its fields"))
		case seen[name]:
			errs = append(errs, field.Duplicate(here, name))
		}
		seen[name] = true
	}
	return errs
}

// CheckSchemas is the part of Check for schemas.
func CheckSchemas(at *field.Path, all, old []clusterv1.ClusterClassVariable) (errs field.ErrorList) {
	before := map[string]*clusterv1.JSONSchemaProps{}
	for i := range old {
		before[old[i].Name] = &old[i].Schema.OpenAPIV3Schema
	}
	for i := range all {
		v, here := &all[i], at.Key(all[i].Name)
		if v.Required == nil {
			errs = append(errs, field.Required(here.Child("required"), "say whether a Cluster must set the variable"))
		}
		errs = append(errs, metadata(here.Child("deprecatedV1Beta1Metadata"), v.DeprecatedV1Beta1Metadata.Labels, v.DeprecatedV1Beta1Metadata.Annotations)...)
		errs = append(errs, checkSchema(here.Child("schema", "openAPIV3Schema"), v, before[v.Name])...)
	}
	return errs
}

func metadata(at *field.Path, labels, annotations map[string]string) field.ErrorList {
	return fieldvalidation.Metadata(at, clusterv1.ObjectMeta{Labels: labels, Annotations: annotations})
}

func checkSchema(at *field.Path, v *clusterv1.ClusterClassVariable, old *clusterv1.JSONSchemaProps) field.ErrorList {
	s := v.Schema.OpenAPIV3Schema
	errs := bounds(at, s)
	each(at.String(), s.DeepCopy(), func(at string, s *clusterv1.JSONSchemaProps) {
		here := field.NewPath(at)
		errs = append(errs, metadata(here.Child("x-metadata"), s.XMetadata.Labels, s.XMetadata.Annotations)...)
		for i, rule := range s.XValidations {
			if n := utf8.RuneCountInString(rule.Message); n > maxMessage {
				errs = append(errs, field.TooLong(here.Child("x-kubernetes-validations").Index(i).Child("message"), rule.Message, maxMessage))
			}
		}
	})
	if len(errs) == 0 {
		errs = asDefinition(at, s, old)
	}
	if len(errs) == 0 {
		errs = samples(at, v.Name, s)
	}
	return errs
}

// bounds checks the root of a schema against the limits of the API, which would
// otherwise refuse the whole status. It does not check nested schemas.
func bounds(at *field.Path, s clusterv1.JSONSchemaProps) (errs field.ErrorList) {
	text := func(at *field.Path, text string, most int) {
		if utf8.RuneCountInString(text) > most {
			errs = append(errs, field.TooLong(at, text, most))
		}
	}
	many := func(at *field.Path, n, most int) {
		if n > most {
			errs = append(errs, field.TooMany(at, n, most))
		}
	}
	text(at.Child("description"), s.Description, 4096)
	text(at.Child("format"), s.Format, 32)
	text(at.Child("pattern"), s.Pattern, 512)
	many(at.Child("required"), len(s.Required), 1000)
	many(at.Child("enum"), len(s.Enum), 100)
	many(at.Child("x-kubernetes-validations"), len(s.XValidations), 100)
	seen := map[string]bool{}
	for i, rule := range s.XValidations {
		rules := at.Child("x-kubernetes-validations").Index(i)
		text(rules.Child("rule"), rule.Rule, 4096)
		text(rules.Child("message"), rule.Message, 512)
		text(rules.Child("messageExpression"), rule.MessageExpression, 1024)
		text(rules.Child("fieldPath"), rule.FieldPath, 512)
		if seen[rule.Rule] {
			errs = append(errs, field.Duplicate(rules.Child("rule"), rule.Rule))
		}
		seen[rule.Rule] = true
	}
	return errs
}

// asDefinition validates a schema as the API server validates that of a
// CustomResourceDefinition.
func asDefinition(at *field.Path, s clusterv1.JSONSchemaProps, old *clusterv1.JSONSchemaProps) field.ErrorList {
	crd, err := definition(s)
	if err != nil {
		return field.ErrorList{field.Invalid(at, s.Type, err.Error())}
	}
	var errs field.ErrorList
	var before *apiextensions.CustomResourceDefinition
	if old != nil {
		before, _ = definition(*old) // if it cannot be converted now, it could not before either
	}
	if before != nil {
		errs = validation.ValidateCustomResourceDefinitionUpdate(endless{}, crd, before)
	} else {
		errs = validation.ValidateCustomResourceDefinition(endless{}, crd)
	}
	const root = "spec.validation.openAPIV3Schema"
	here := strings.NewReplacer(root+".properties["+value+"]", at.String(), root, at.String())
	for _, e := range errs {
		e.Field, e.Detail = here.Replace(e.Field), here.Replace(e.Detail)
		if rule, ok := e.BadValue.(apiextensions.ValidationRule); ok {
			e.BadValue = rule.Rule
		}
	}
	return errs
}

// definition is a CustomResourceDefinition with a variable as its only field.
func definition(s clusterv1.JSONSchemaProps) (*apiextensions.CustomResourceDefinition, error) {
	s = *s.DeepCopy()
	// The API server forbids it for stored objects, in which lists may be long.
	each("", &s, func(_ string, s *clusterv1.JSONSchemaProps) { s.UniqueItems = nil })
	props, err := internal(s)
	if err != nil {
		return nil, err
	}
	return &apiextensions.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "values.variables.capstan.dev", ResourceVersion: "1"},
		Spec: apiextensions.CustomResourceDefinitionSpec{
			Group: "variables.capstan.dev", Scope: apiextensions.NamespaceScoped, Version: "v1",
			Names:      apiextensions.CustomResourceDefinitionNames{Plural: "values", Singular: "value", Kind: "Value", ListKind: "ValueList"},
			Versions:   []apiextensions.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true}},
			Conversion: &apiextensions.CustomResourceConversion{Strategy: apiextensions.NoneConverter},
			Validation: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{
				Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{value: *props},
			}},
			PreserveUnknownFields: new(false),
		},
		Status: apiextensions.CustomResourceDefinitionStatus{StoredVersions: []string{"v1"}},
	}, nil
}

// samples returns the examples and enumeration values that the schema containing them
// refuses. Defaults are checked with the definition.
func samples(at *field.Path, name string, s clusterv1.JSONSchemaProps) (errs field.ErrorList) {
	each(at.String(), s.DeepCopy(), func(at string, s *clusterv1.JSONSchemaProps) {
		if s.Example == nil && len(s.Enum) == 0 || s.Type == "" && s.XIntOrString == nil {
			return // below allOf and similar, there is no type to check against
		}
		c, err := Compile(clusterv1.VariableSchema{OpenAPIV3Schema: *s})
		if err != nil {
			return // reported already
		}
		try := func(at *field.Path, sample apiextensionsv1.JSON) {
			v, err := decode(sample.Raw)
			if err != nil {
				errs = append(errs, field.Invalid(at, string(sample.Raw), err.Error()))
				return
			}
			found, _ := c.check(at, name, v, nil, Budget)
			errs = append(errs, found...)
		}
		here := field.NewPath(at)
		if s.Example != nil {
			try(here.Child("example"), *s.Example)
		}
		for i, v := range s.Enum {
			try(here.Child("enum").Index(i), v)
		}
	})
	return errs
}
