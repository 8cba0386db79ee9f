// SPDX-License-Identifier: Apache-2.0

package crds

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Version is one version of the kind that a definition defines.
type Version struct {
	Name    string
	Served  bool
	Storage bool // the one that objects are kept in
	Status  bool // has a status subresource
	Scale   *apiextensionsv1.CustomResourceSubresourceScale
	Warning string // to its users; empty if it is not deprecated

	of       *Definition
	compiled func() (*compiled, error)
	managers sync.Map // of fields, by subresource
}

// compiled is a version ready for use.
type compiled struct {
	schema *structuralschema.Structural
	whole  strategy
	status rest.RESTUpdateStrategy
	table  rest.TableConvertor
	fields []apiextensionsv1.SelectableField
}

// strategy is the interface of the library for a kind.
type strategy interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
	rest.ResetFieldsStrategy
}

// GVK names the kind in this version.
func (v *Version) GVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: v.of.Group, Version: v.Name, Kind: v.of.Names.Kind}
}

// Resource names the kind as requests do.
func (v *Version) Resource() schema.GroupResource {
	return schema.GroupResource{Group: v.of.Group, Resource: v.of.Names.Plural}
}

func (v *Version) compile() (*compiled, error) {
	c, err := v.build()
	if err != nil {
		return nil, fmt.Errorf("use the schema of %s: %w", v.GVK(), err)
	}
	return c, nil
}

func (v *Version) build() (*compiled, error) {
	crd, err := v.of.whole()
	if err != nil {
		return nil, err
	}
	declared := v.in(crd)
	var in apiextensions.CustomResourceDefinitionVersion
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinitionVersion_To_apiextensions_CustomResourceDefinitionVersion(declared, &in, nil); err != nil {
		return nil, err
	}
	var props *apiextensions.JSONSchemaProps
	if in.Schema != nil {
		props = in.Schema.OpenAPIV3Schema
	}
	c := &compiled{fields: declared.SelectableFields}
	if c.schema, err = structuralschema.NewStructural(props); err != nil {
		return nil, err
	}
	c.schema = c.schema.DeepCopy() // its defaults belong to the definition
	if err := defaulting.PruneDefaults(c.schema); err != nil {
		return nil, err
	}
	whole, _, err := validation.NewSchemaValidator(props)
	if err != nil {
		return nil, err
	}
	var status validation.SchemaValidator
	if props != nil {
		if p, ok := props.Properties["status"]; ok && v.Status {
			if status, _, err = validation.NewSchemaValidator(&p); err != nil {
				return nil, err
			}
		}
	}
	var sub apiextensions.CustomResourceSubresources
	if in.Subresources != nil {
		sub = *in.Subresources
	}
	made := customresource.NewStrategy(nil, v.of.Namespaced, v.GVK(), whole, status, c.schema, sub.Status, sub.Scale, declared.SelectableFields)
	c.whole, c.status = made, customresource.NewStatusStrategy(made)
	columns := declared.AdditionalPrinterColumns
	if len(columns) == 0 {
		columns = []apiextensionsv1.CustomResourceColumnDefinition{{
			Name: "Age", Type: "date", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"], JSONPath: ".metadata.creationTimestamp",
		}}
	}
	if c.table, err = tableconvertor.New(columns); c.table == nil { // with an error it still shows the name
		return nil, err
	}
	return c, nil
}

func (v *Version) in(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinitionVersion {
	for i := range crd.Spec.Versions {
		if crd.Spec.Versions[i].Name == v.Name {
			return &crd.Spec.Versions[i]
		}
	}
	return nil // not reached: v was created from this definition
}

// Fit converts u to an object of this version as a decoder would: fields that the
// schema does not have are dropped and returned, defaults are set.
func (v *Version) Fit(u *unstructured.Unstructured) (unknown []string, err error) {
	c, err := v.compiled()
	if err != nil {
		return nil, err
	}
	u.SetGroupVersionKind(v.GVK())
	unknown, err = c.coerce(u)
	if err != nil {
		return nil, err
	}
	defaulting.Default(u.Object, c.schema)
	return unknown, nil
}

// coerce drops what an object cannot have, as decoding into a Go type does.
func (c *compiled) coerce(u *unstructured.Unstructured) (unknown []string, err error) {
	gvk := u.GroupVersionKind()
	meta, found, unknown, err := objectmeta.GetObjectMetaWithOptions(u.Object, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return nil, err
	}
	track := structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	unknown = append(unknown, pruning.PruneWithOptions(u.Object, c.schema, true, track)...)
	defaulting.PruneNonNullableNullsWithoutDefaults(u.Object, c.schema)
	invalid, more := objectmeta.CoerceWithOptions(nil, u.Object, c.schema, false, objectmeta.CoerceOptions{ReturnUnknownFieldPaths: true})
	if invalid != nil {
		return nil, invalid
	}
	u.SetGroupVersionKind(gvk)
	if found {
		err = objectmeta.SetObjectMeta(u.Object, meta)
	}
	return append(unknown, more...), err
}

// Prepare resets what a writer through a subresource must not change; was is nil at
// creation.
func (v *Version) Prepare(sub string, was, next *unstructured.Unstructured) error {
	c, err := v.compiled()
	switch {
	case err != nil:
		return err
	case was == nil:
		c.whole.PrepareForCreate(context.Background(), next)
	case sub == "status":
		c.status.PrepareForUpdate(context.Background(), next, was)
	default:
		c.whole.PrepareForUpdate(context.Background(), next, was)
	}
	return nil
}

// Validate returns what is wrong with an object; was is nil at creation.
func (v *Version) Validate(sub string, was, next *unstructured.Unstructured) (field.ErrorList, error) {
	c, err := v.compiled()
	switch {
	case err != nil:
		return nil, err
	case was == nil:
		return c.whole.Validate(context.Background(), next), nil
	case sub == "status":
		return c.status.ValidateUpdate(context.Background(), next, was), nil
	}
	return c.whole.ValidateUpdate(context.Background(), next, was), nil
}

// Table shows objects as the columns of the definition.
func (v *Version) Table(objs ...*unstructured.Unstructured) (*metav1.Table, error) {
	c, err := v.compiled()
	if err != nil {
		return nil, err
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{}}
	for _, u := range objs {
		list.Items = append(list.Items, *u)
	}
	return c.table.ConvertToTable(context.Background(), list, nil)
}

// Selectable lists the fields that may be selected by, in addition to name and
// namespace.
func (v *Version) Selectable() ([]string, error) {
	c, err := v.compiled()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range c.fields {
		names = append(names, strings.TrimPrefix(f.JSONPath, "."))
	}
	return names, nil
}

// Fields gives an object's fields as selectors see them.
func (v *Version) Fields(u *unstructured.Unstructured) (fields.Set, error) {
	c, err := v.compiled()
	if err != nil {
		return nil, err
	}
	attrs, ok := c.whole.(interface {
		GetAttrs(runtime.Object) (labels.Set, fields.Set, error)
	})
	if !ok {
		return nil, nil
	}
	_, set, err := attrs.GetAttrs(u)
	return set, err
}

// Manager merges what is applied to objects through a subresource, and tracks the
// managers of fields.
func (v *Version) Manager(sub string) (*managedfields.FieldManager, error) {
	if fm, ok := v.managers.Load(sub); ok {
		return fm.(*managedfields.FieldManager), nil
	}
	fm, err := v.newManager(sub)
	if err != nil {
		return nil, fmt.Errorf("field manager of %s: %w", v.GVK(), err)
	}
	v.managers.Store(sub, fm)
	return fm, nil
}
