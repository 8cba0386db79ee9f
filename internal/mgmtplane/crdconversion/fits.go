// SPDX-License-Identifier: Apache-2.0

package crdconversion

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"

	"github.com/capstan-dev/capstan/internal/kit/conversion"
)

// fits refuses an object of an old version that the stored version does not allow,
// or that could not be read again.
//
// An API server validates an object against the schema of the version of the
// request, and not against that of the stored version. What the latter does not
// allow would still be stored; the next client that writes it at the stored version
// would then get the error for another client's change. Fields that an update does
// not change are not validated again, as in any update.
type fits struct {
	by      *conversion.Converter
	schemas *schemas
}

func newFits(by *conversion.Converter, definitions func() ([]*apiextensionsv1.CustomResourceDefinition, error)) fits {
	return fits{by, &schemas{definitions: definitions, made: map[schema.GroupVersionKind]*rules{}}}
}

// Handles implements admission.Interface.
func (fits) Handles(o admission.Operation) bool {
	return o == admission.Create || o == admission.Update
}

// Validate implements admission.ValidationInterface.
func (f fits) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	obj, isObject := a.GetObject().(*unstructured.Unstructured)
	if !isObject || !f.by.Converts(obj.GroupVersionKind()) {
		return nil
	}
	old, isUpdate := a.GetOldObject().(*unstructured.Unstructured)
	if isUpdate && reflect.DeepEqual(data(obj), data(old)) {
		return nil
	}
	kind := obj.GroupVersionKind()
	now, err := f.by.Object(obj.Object, f.by.Stored(kind.GroupKind()))
	if err == nil {
		_, err = f.by.Object(now, kind.GroupVersion().String())
	}
	var was map[string]any
	if err == nil && isUpdate {
		was, err = f.by.Object(old.Object, f.by.Stored(kind.GroupKind()))
	}
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	stored := schema.FromAPIVersionAndKind(f.by.Stored(kind.GroupKind()), kind.Kind)
	rules, err := f.schemas.of(stored)
	if err != nil || rules == nil {
		return err
	}
	errs := rules.check(ctx, now, was)
	if len(errs) > 0 && len(rules.check(ctx, withoutEmpty(now), withoutEmpty(was))) > 0 {
		for _, e := range errs {
			e.Detail += fmt.Sprintf(" (as %s, at which it is stored)", stored.GroupVersion())
		}
		return apierrors.NewInvalid(kind.GroupKind(), obj.GetName(), errs)
	}
	return nil
}

// withoutEmpty drops empty lists, and objects that are empty without them. They
// mean the same as absent fields; old versions allow them where new ones require an
// item.
func withoutEmpty(obj map[string]any) map[string]any {
	out := map[string]any{}
	for name, v := range obj {
		switch was := v.(type) {
		case map[string]any:
			field := withoutEmpty(was)
			if len(field) == 0 && len(was) > 0 {
				continue
			}
			v = field
		case []any:
			if len(was) == 0 {
				continue
			}
			items := slices.Clone(was)
			for i, item := range items {
				if m, ok := item.(map[string]any); ok {
					items[i] = withoutEmpty(m)
				}
			}
			v = items
		}
		out[name] = v
	}
	return out
}

// rules validate objects of one version of a kind, as an API server does.
type rules struct {
	validator
	fill func(map[string]any) // sets defaults
}

// check validates an object against the rules; old is nil on creation.
func (r *rules) check(ctx context.Context, obj, old map[string]any) field.ErrorList {
	r.fill(obj)
	now := &unstructured.Unstructured{Object: obj}
	if len(old) == 0 {
		return r.Validate(ctx, now)
	}
	r.fill(old)
	return r.ValidateUpdate(ctx, now, &unstructured.Unstructured{Object: old})
}

type validator interface {
	Validate(context.Context, runtime.Object) field.ErrorList
	ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList
}

// schemas creates rules when a client first writes a kind at an old version: they
// take some megabytes.
type schemas struct {
	definitions func() ([]*apiextensionsv1.CustomResourceDefinition, error)

	mu   sync.Mutex
	made map[schema.GroupVersionKind]*rules
}

// of returns nil for a kind without a definition.
func (s *schemas) of(kind schema.GroupVersionKind) (*rules, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.made[kind]; ok {
		return r, nil
	}
	crds, err := s.definitions()
	if err != nil {
		return nil, err
	}
	var r *rules
	for _, crd := range crds {
		if crd.Spec.Group == kind.Group && crd.Spec.Names.Kind == kind.Kind {
			if r, err = newRules(crd, kind); err != nil {
				return nil, fmt.Errorf("read the schema of %s: %w", kind, err)
			}
		}
	}
	s.made[kind] = r
	return r, nil
}

func newRules(crd *apiextensionsv1.CustomResourceDefinition, kind schema.GroupVersionKind) (*rules, error) {
	own, err := apihelpers.GetSchemaForVersion(crd, kind.Version)
	if err != nil {
		return nil, err
	}
	var internal apiextensions.CustomResourceValidation
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(own, &internal, nil); err != nil {
		return nil, err
	}
	structural, err := structuralschema.NewStructural(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	schemaValidator, _, err := validation.NewSchemaValidator(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	namespaced := crd.Spec.Scope == apiextensionsv1.NamespaceScoped
	return &rules{
		validator: customresource.NewStrategy(nil, namespaced, kind, schemaValidator, nil, structural, nil, nil, nil),
		fill:      func(obj map[string]any) { defaulting.Default(obj, structural) },
	}, nil
}
