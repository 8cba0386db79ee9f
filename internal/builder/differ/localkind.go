// SPDX-License-Identifier: Apache-2.0

package differ

import (
	"errors"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

var errConflict = errors.New("the object has been modified")

// localKind serves one kind. All its versions have the same schema but in name.
type localKind struct {
	hub        schema.GroupVersionKind                // as stored
	managers   map[string]*managedfields.FieldManager // by version
	structural *structuralschema.Structural
	validator  validation.SchemaValidator
}

func newLocalKind(crd *apiextensionsv1.CustomResourceDefinition) (*localKind, error) {
	k := &localKind{managers: map[string]*managedfields.FieldManager{}}
	models := map[string]*spec.Schema{}
	reset := map[fieldpath.APIVersion]fieldpath.Filter{}
	for _, v := range crd.Spec.Versions {
		published, err := builder.BuildOpenAPIV3(crd, v.Name, builder.Options{})
		if err != nil {
			return nil, err
		}
		for name, m := range published.Components.Schemas {
			models[name] = m
		}
		reset[fieldpath.APIVersion(crd.Spec.Group+"/"+v.Name)] = fieldpath.NewExcludeSetFilter(fieldpath.NewSet(fieldpath.MakePathOrDie("status")))
		if v.Storage {
			if err := k.store(crd, v); err != nil {
				return nil, err
			}
		}
	}
	types, err := managedfields.NewTypeConverter(models, false)
	if err != nil {
		return nil, err
	}
	for _, v := range crd.Spec.Versions {
		gvk := schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind}
		if k.managers[v.Name], err = managedfields.NewDefaultCRDFieldManager(types, k, k, k, gvk, k.hub.GroupVersion(), "", reset); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// store takes over the version that is stored.
func (k *localKind) store(crd *apiextensionsv1.CustomResourceDefinition, v apiextensionsv1.CustomResourceDefinitionVersion) (err error) {
	k.hub = schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind}
	var in apiextensions.CustomResourceValidation
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(v.Schema, &in, nil); err != nil {
		return err
	}
	if k.structural, err = structuralschema.NewStructural(in.OpenAPIV3Schema); err != nil {
		return err
	}
	k.validator, _, err = validation.NewSchemaValidator(in.OpenAPIV3Schema)
	return err
}

// Convert implements a converter, with the two functions below.
func (k *localKind) Convert(_, _, _ any) error { return nil }

// ConvertToVersion changes only the version: to drop nulls here, in the middle of a
// merge, would lose items of maps, as it does not in a server.
func (k *localKind) ConvertToVersion(in runtime.Object, to runtime.GroupVersioner) (runtime.Object, error) {
	out := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(in.(*unstructured.Unstructured).Object)}
	gvk := k.hub
	if gv, ok := to.(schema.GroupVersion); ok {
		gvk = gv.WithKind(k.hub.Kind)
	}
	out.SetGroupVersionKind(gvk)
	return out, nil
}

// ConvertFieldLabel does nothing.
func (k *localKind) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// Default implements a defaulter.
func (k *localKind) Default(o runtime.Object) {
	defaulting.Default(o.(*unstructured.Unstructured).Object, k.structural)
}

// New implements a creater.
func (k *localKind) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u, nil
}

// coerce prunes fields that a schema does not have, except metadata.
func (k *localKind) coerce(u *unstructured.Unstructured) {
	meta := u.Object["metadata"]
	pruning.Prune(u.Object, k.structural, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(u.Object, k.structural)
	if meta != nil {
		u.Object["metadata"] = meta
	}
}
