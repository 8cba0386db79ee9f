// SPDX-License-Identifier: Apache-2.0

package definition

import (
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/contract"
)

// Promise is a field of a role's schema that Cluster API reads or writes.
type Promise struct {
	// Path is dotted, with * for the items of a list or a map.
	Path string

	// Type is its type in the schema, such as string.
	Type string

	// Must means that the field has to exist, or the one at Or.
	Must bool
	Or   string

	// In limits it to one version of the contract; all when empty.
	In string
}

// everywhere are the Promises of all roles.
func everywhere() []Promise {
	return []Promise{
		{Path: "status.conditions", Type: "array"},
		{Path: "status.conditions.*.type", Type: "string"},
		{Path: "status.conditions.*.status", Type: "string"},
		{Path: "status.failureReason", Type: "string"},
		{Path: "status.failureMessage", Type: "string"},
	}
}

func (k *Kind) promises(own []Promise) (all []Promise) {
	for _, p := range append(everywhere(), own...) {
		if p.In == "" || p.In == k.Contract {
			all = append(all, p)
		}
	}
	return all
}

// FieldsThere checks that required fields exist.
func (k *Kind) FieldsThere(own []Promise) error {
	return k.fields(own, func(p Promise, at func(path string) *apiextensionsv1.JSONSchemaProps) error {
		switch {
		case !p.Must || at(p.Path) != nil || p.Or != "" && at(p.Or) != nil:
			return nil
		case p.Or != "":
			return fmt.Errorf("it has neither %s nor %s", p.Path, p.Or)
		}
		return fmt.Errorf("it has no %s", p.Path)
	})
}

// FieldsTyped checks the types of existing fields.
func (k *Kind) FieldsTyped(own []Promise) error {
	return k.fields(own, func(p Promise, at func(path string) *apiextensionsv1.JSONSchemaProps) error {
		if found := at(p.Path); found != nil && found.Type != "" && found.Type != p.Type {
			return fmt.Errorf("%s is of type %s, want %s", p.Path, found.Type, p.Type)
		}
		return nil
	})
}

func (k *Kind) fields(own []Promise, look func(p Promise, at func(path string) *apiextensionsv1.JSONSchemaProps) error) error {
	v, err := k.served()
	if err != nil {
		return err
	}
	var wrong []string
	for _, p := range k.promises(own) {
		if err := look(p, func(path string) *apiextensionsv1.JSONSchemaProps { return fieldAt(v, path) }); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("version %s of %s: %s", v.Name, k.definition.Name, strings.Join(wrong, "; "))
	}
	return nil
}

// Has reports whether the version that is used has a field.
func (k *Kind) Has(path string) bool {
	v, err := k.served()
	return err == nil && fieldAt(v, path) != nil
}

// fieldAt returns the schema of a field; nil if it has no such field, or if the schema
// leaves it open.
func fieldAt(v apiextensionsv1.CustomResourceDefinitionVersion, path string) *apiextensionsv1.JSONSchemaProps {
	if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
		return nil
	}
	at := v.Schema.OpenAPIV3Schema
	for _, step := range strings.Split(path, ".") {
		next, ok := at.Properties[step]
		switch {
		case step == "*" && at.Items != nil && at.Items.Schema != nil:
			at = at.Items.Schema
		case step == "*" && at.AdditionalProperties != nil && at.AdditionalProperties.Schema != nil:
			at = at.AdditionalProperties.Schema
		case ok:
			at = &next
		case at.XPreserveUnknownFields != nil && *at.XPreserveUnknownFields:
			return &apiextensionsv1.JSONSchemaProps{}
		default:
			return nil
		}
	}
	return at
}

// TemplateShaped checks where a template holds the content of the objects created from
// it.
func (k *Kind) TemplateShaped() error {
	d, err := k.Source.find(TemplateOf(k.GroupKind))
	if err != nil {
		return conformance.Skip("%w", err)
	}
	_, api, err := contract.Choose(d.Labels)
	if err != nil {
		return conformance.Skip("%w", err)
	}
	v, err := versionOf(d, api)
	if err != nil {
		return err
	}
	if found := fieldAt(v, "spec.template.spec"); found == nil || found.Type != "" && found.Type != "object" {
		return fmt.Errorf("version %s of %s has no object spec.template.spec", v.Name, d.Name)
	}
	return nil
}

// Scalable checks for the scale subresource.
func (k *Kind) Scalable() error {
	v, err := k.served()
	if err != nil {
		return err
	}
	if at := fieldAt(v, "spec.replicas"); at == nil || at.Type == "" {
		return conformance.Skip("it has no spec.replicas")
	}
	if v.Subresources == nil || v.Subresources.Scale == nil {
		return fmt.Errorf("version %s of %s has no subresource scale", v.Name, k.definition.Name)
	}
	scale := v.Subresources.Scale
	if scale.SpecReplicasPath != ".spec.replicas" || scale.StatusReplicasPath != ".status.replicas" || scale.LabelSelectorPath == nil || *scale.LabelSelectorPath != ".status.selector" {
		return fmt.Errorf("the subresource scale of %s has the paths %q, %q and %q", k.definition.Name, scale.SpecReplicasPath, scale.StatusReplicasPath, ptr.Deref(scale.LabelSelectorPath, ""))
	}
	return nil
}

// TemplateVersion is the version of the template that Cluster API uses.
func (k *Kind) TemplateVersion() (string, error) {
	d, err := k.Source.find(TemplateOf(k.GroupKind))
	if err != nil {
		return "", err
	}
	_, api, err := contract.Choose(d.Labels)
	return api, err
}
