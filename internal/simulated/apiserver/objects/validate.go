// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
)

// immutable lists the fields that may not change, by resource. A field that is
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

// validate asks the writer's own check, and checks what the simulation's users can get wrong and would notice;
// was is nil at creation. Types and unknown fields were checked by decoding.
func validate(k *kinds.Kind, was, u *unstructured.Unstructured, w Writing) error {
	if w.Check != nil {
		if err := w.Check(was, u); err != nil {
			return err
		}
	}
	var errs field.ErrorList
	if was == nil {
		errs = validateNew(k, u)
	} else {
		errs = validateChange(k, was, u)
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

func validateNew(k *kinds.Kind, u *unstructured.Unstructured) (errs field.ErrorList) {
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
	changed := func(path ...string) bool {
		before, _, _ := unstructured.NestedFieldNoCopy(was.Object, path...)
		after, _, _ := unstructured.NestedFieldNoCopy(u.Object, path...)
		return !reflect.DeepEqual(before, after)
	}
	for _, path := range immutable[k.Resource] {
		if changed(path...) {
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
