// SPDX-License-Identifier: Apache-2.0

package crds

import (
	"encoding/json"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// describe returns the types of all versions.
func (d *Definition) describe() (managedfields.TypeConverter, error) {
	crd, err := d.whole()
	if err != nil {
		return nil, err
	}
	all := map[string]*spec.Schema{}
	for _, v := range d.Versions {
		doc, err := builder.BuildOpenAPIV3(crd, v.Name, builder.Options{})
		if err != nil {
			return nil, err
		}
		for name, s := range doc.Components.Schemas {
			all[name] = s
		}
	}
	return managedfields.NewTypeConverter(all, false)
}

// OpenAPIV3 describes versions, of one name and group, as an OpenAPI v3
// document.
func OpenAPIV3(versions []*Version) ([]byte, error) {
	var docs []*spec3.OpenAPI
	for _, v := range versions {
		crd, err := v.of.whole()
		if err != nil {
			return nil, err
		}
		doc, err := builder.BuildOpenAPIV3(crd, v.Name, builder.Options{IncludeSelectableFields: true})
		if err != nil {
			return nil, err
		}
		docs = append(docs, doc)
	}
	merged, err := builder.MergeSpecsV3(docs...)
	if err != nil {
		return nil, err
	}
	return json.Marshal(merged)
}

// OpenAPIV2 adds versions to an OpenAPI v2 document.
func OpenAPIV2(static *spec.Swagger, versions []*Version) ([]byte, error) {
	var docs []*spec.Swagger
	for _, v := range versions {
		crd, err := v.of.whole()
		if err != nil {
			return nil, err
		}
		doc, err := builder.BuildOpenAPIV2(crd, v.Name, builder.Options{V2: true, StripValueValidation: true, StripNullable: true, IncludeSelectableFields: true})
		if err != nil {
			return nil, err
		}
		docs = append(docs, doc)
	}
	merged, err := builder.MergeSpecs(static, docs...)
	if err != nil {
		return nil, err
	}
	return json.Marshal(merged)
}

func (v *Version) newManager(sub string) (*managedfields.FieldManager, error) {
	types, err := v.of.models()
	if err != nil {
		return nil, err
	}
	reset := map[fieldpath.APIVersion]fieldpath.Filter{}
	schemas := map[string]*structuralschema.Structural{}
	for _, other := range v.of.Versions {
		c, err := other.compiled()
		if err != nil {
			return nil, err
		}
		schemas[other.Name] = c.schema
		from, ok := c.whole.(rest.ResetFieldsStrategy), true
		if sub == "status" {
			from, ok = c.status.(rest.ResetFieldsStrategy)
		}
		if ok && sub != "scale" {
			for version, set := range from.GetResetFields() {
				reset[version] = fieldpath.NewExcludeSetFilter(set)
			}
		}
	}
	conv := sameButInName{kind: v.GVK(), schemas: schemas}
	return managedfields.NewDefaultCRDFieldManager(types, conv, conv, conv, v.GVK(), v.GVK().GroupVersion(), sub, reset)
}

// sameButInName converts between versions that have the same fields: there would be
// no webhook to convert them.
type sameButInName struct {
	kind    schema.GroupVersionKind
	schemas map[string]*structuralschema.Structural
}

func (sameButInName) Convert(_, _, _ any) error { return nil }

func (s sameButInName) ConvertToVersion(in runtime.Object, to runtime.GroupVersioner) (runtime.Object, error) {
	gvk, ok := to.KindForGroupVersionKinds([]schema.GroupVersionKind{s.kind})
	if gv, is := to.(schema.GroupVersion); is {
		gvk, ok = gv.WithKind(s.kind.Kind), s.schemas[gv.Version] != nil && gv.Group == s.kind.Group
	}
	if !ok {
		return nil, runtime.NewNotRegisteredErrForTarget("simulated cluster", nil, to)
	}
	out := in.DeepCopyObject().(*unstructured.Unstructured)
	out.SetGroupVersionKind(gvk)
	return out, nil
}

func (sameButInName) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func (s sameButInName) Default(in runtime.Object) {
	if u, ok := in.(*unstructured.Unstructured); ok {
		defaulting.Default(u.Object, s.schemas[u.GroupVersionKind().Version])
	}
}

func (sameButInName) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u, nil
}
