// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
	specvalidation "github.com/capstan-dev/capstan/internal/simulated/apiserver/validation"
)

// immutable lists the fields that must not change, by resource. A field that is
// empty may still be set if it is a Node's.
var immutable = map[string][][]string{
	"secrets":                {{"type"}},
	"deployments":            {{"spec", "selector"}},
	"daemonsets":             {{"spec", "selector"}},
	"replicasets":            {{"spec", "selector"}},
	"statefulsets":           {{"spec", "selector"}, {"spec", "serviceName"}},
	"rolebindings":           {{"roleRef"}},
	"clusterrolebindings":    {{"roleRef"}},
	"storageclasses":         {{"provisioner"}, {"parameters"}},
	"persistentvolumeclaims": {{"spec", "storageClassName"}},
}

// required lists the fields that must be there, by resource: texts, lists and maps.
var required = map[string][][]string{
	"storageclasses":             {{"provisioner"}},
	"certificatesigningrequests": {{"spec", "request"}, {"spec", "signerName"}},
	"persistentvolumes":          {{"spec", "capacity"}, {"spec", "accessModes"}},
}

// plain reports whether API servers check the metadata of a kind as that of custom resources.
func plain(k *kinds.Kind) bool {
	return slices.Contains([]string{"apiextensions.k8s.io", "apiregistration.k8s.io", "policy"}, k.Group)
}

// validate calls the writer's own check, and checks the mistakes that users of the
// simulation can make and would notice; was is nil at creation. Types and unknown
// fields were checked by decoding.
func validate(k *kinds.Kind, was, u *unstructured.Unstructured, w Writing) error {
	if w.Check != nil {
		if err := w.Check(was, u); err != nil {
			return err
		}
	}
	var errs field.ErrorList
	meta := field.NewPath("metadata")
	if was == nil {
		errs = append(validation.ValidateObjectMetaAccessor(u, k.Namespaced, nameOf(k), meta), validateNew(k, u)...)
	} else {
		u.SetResourceVersion(was.GetResourceVersion())
		errs = append(validation.ValidateObjectMetaAccessorUpdate(u, was, meta), validateChange(k, was, u)...)
	}
	for i, name := range u.GetFinalizers() {
		if k.Custom == nil && !plain(k) && (was == nil || !slices.Contains(was.GetFinalizers(), name)) {
			errs = append(errs, specvalidation.Finalizer(meta.Child("finalizers").Index(i), name)...)
		}
	}
	if k.Custom == nil && len(errs) == 0 && (was == nil || changes(was, u)) { // what was stored earlier may change otherwise
		found, err := validateObject(k, u)
		if err != nil {
			return err
		}
		errs = found
	}
	if k.Custom != nil && !w.Trusted {
		found, err := k.Custom.Validate(w.Sub, was, u)
		if err != nil {
			return err
		}
		errs = append(errs, found...)
	}
	if len(errs) == 0 {
		return nil
	}
	return invalid(k, u.GetName(), errs...)
}

// changes reports whether two versions of an object differ in more than metadata and status.
func changes(was, u *unstructured.Unstructured) bool {
	differs := func(a, b map[string]any) bool {
		for name := range a {
			if name != "metadata" && name != "status" && !reflect.DeepEqual(a[name], b[name]) {
				return true
			}
		}
		return false
	}
	return differs(was.Object, u.Object) || differs(u.Object, was.Object)
}

// validateObject checks what is in a built-in kind, as API servers do.
func validateObject(k *kinds.Kind, u *unstructured.Unstructured) (field.ErrorList, error) {
	obj, err := k.New()
	if err == nil {
		err = into(u, obj)
	}
	if err != nil {
		return nil, err
	}
	return specvalidation.Object(obj), nil
}

func validateNew(k *kinds.Kind, u *unstructured.Unstructured) (errs field.ErrorList) {
	if k.Custom != nil { // its schema defines it
		return nil
	}
	for _, path := range required[k.Resource] {
		if v, _, _ := unstructured.NestedFieldNoCopy(u.Object, path...); v == nil || reflect.ValueOf(v).Len() == 0 {
			errs = append(errs, field.Required(field.NewPath(path[0], path[1:]...), ""))
		}
	}
	return errs
}

func validateChange(k *kinds.Kind, was, u *unstructured.Unstructured) (errs field.ErrorList) {
	if k.Custom != nil {
		return nil
	}
	changed := func(path ...string) bool {
		before, _, _ := unstructured.NestedFieldNoCopy(was.Object, path...)
		after, _, _ := unstructured.NestedFieldNoCopy(u.Object, path...)
		return !reflect.DeepEqual(before, after)
	}
	for _, path := range immutable[k.Resource] {
		if changed(path...) {
			if before, _, _ := unstructured.NestedFieldNoCopy(was.Object, path...); before == nil && k.Resource == "persistentvolumeclaims" {
				continue // the default class is chosen once there is one
			}
			v, _, _ := unstructured.NestedFieldNoCopy(u.Object, path...)
			errs = append(errs, field.Invalid(field.NewPath(path[0], path[1:]...), v, "field is immutable"))
		}
	}
	if k.Resource == "nodes" {
		if id, _, _ := unstructured.NestedString(was.Object, "spec", "providerID"); id != "" && changed("spec", "providerID") {
			errs = append(errs, field.Forbidden(field.NewPath("spec", "providerID"), `node updates may not change providerID except from "" to valid`))
		}
	}
	if locked, _, _ := unstructured.NestedBool(was.Object, "immutable"); locked && (k.Resource == "secrets" || k.Resource == "configmaps") {
		for _, name := range []string{"data", "binaryData", "immutable"} {
			if changed(name) {
				errs = append(errs, field.Forbidden(field.NewPath(name), "field is immutable when `immutable` is set"))
			}
		}
	}
	return errs
}
