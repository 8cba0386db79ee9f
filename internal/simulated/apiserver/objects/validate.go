// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"encoding/base64"
	"maps"
	"reflect"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
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
	errs = append(errs, validateData(k, u)...)
	if k.Custom == nil && len(errs) == 0 && (was == nil || changes(was, u, "spec", "rules", "subjects", "roleRef")) { // what was stored earlier may change otherwise
		found, err := validateSpec(k, u)
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

// changes reports whether two versions of an object differ in one of these fields.
func changes(was, u *unstructured.Unstructured, fields ...string) bool {
	return slices.ContainsFunc(fields, func(f string) bool { return !reflect.DeepEqual(was.Object[f], u.Object[f]) })
}

// validateSpec checks the specs of kinds that simulated controllers handle, and roles.
func validateSpec(k *kinds.Kind, u *unstructured.Unstructured) (field.ErrorList, error) {
	switch _, has := u.Object["spec"]; {
	case k.Group == "" && has: // not ConfigMaps, Secrets and Events
	case k.Group == "apps" || k.Group == "batch" || k.Group == "policy" || k.Group == rbacv1.GroupName:
	default:
		return nil, nil
	}
	obj, err := k.New()
	if err == nil {
		err = into(u, obj)
	}
	if err != nil {
		return nil, err
	}
	return specvalidation.Spec(obj), nil
}

// maxData is what the data of a ConfigMap or a Secret may hold.
const maxData = 1 << 20

// validateData checks the keys and the size of the data of ConfigMaps and
// Secrets.
func validateData(k *kinds.Kind, u *unstructured.Unstructured) (errs field.ErrorList) {
	if k.Group != "" || k.Resource != "configmaps" && k.Resource != "secrets" {
		return nil
	}
	size := 0
	for _, name := range []string{"data", "binaryData"} {
		data, _, _ := unstructured.NestedStringMap(u.Object, name)
		for _, key := range slices.Sorted(maps.Keys(data)) {
			for _, text := range utilvalidation.IsConfigMapKey(key) {
				errs = append(errs, field.Invalid(field.NewPath(name).Key(key), key, text))
			}
			if n := len(data[key]); k.Resource == "secrets" || name == "binaryData" {
				size += base64.StdEncoding.DecodedLen(n)
			} else {
				size += n
			}
		}
	}
	if size > maxData {
		at := field.NewPath("")
		if k.Resource == "secrets" {
			at = field.NewPath("data")
		}
		errs = append(errs, field.TooLong(at, "", maxData))
	}
	return errs
}

func validateNew(k *kinds.Kind, u *unstructured.Unstructured) (errs field.ErrorList) {
	if k.Custom != nil { // its schema defines it
		return nil
	}
	require := func(path ...string) {
		if v, ok, _ := unstructured.NestedFieldNoCopy(u.Object, path...); !ok || empty(v) {
			errs = append(errs, field.Required(field.NewPath(path[0], path[1:]...), ""))
		}
	}
	switch k.Resource {
	case "pods":
		require("spec", "containers")
	case "deployments", "daemonsets", "replicasets", "statefulsets":
		require("spec", "selector")
		require("spec", "template", "spec", "containers")
	case "rolebindings", "clusterrolebindings":
		require("roleRef", "name")
	case "storageclasses":
		require("provisioner")
	case "certificatesigningrequests":
		require("spec", "request")
		require("spec", "signerName")
	case "persistentvolumes":
		require("spec", "capacity")
		require("spec", "accessModes")
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
	if containers, ok, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "containers"); k.Resource == "pods" && (!ok || empty(containers)) {
		errs = append(errs, field.Required(field.NewPath("spec", "containers"), ""))
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

func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}
