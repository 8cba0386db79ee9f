// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
)

// decoder reads JSON, YAML and protobuf, and tells unknown and repeated fields.
var decoder = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// Decode reads an object of kind gvk from a request. What the kind does not
// have is dropped, and told: as warnings, or as an error if validation is
// "Strict".
func Decode(gvk schema.GroupVersionKind, body []byte, validation string) (*unstructured.Unstructured, []string, error) {
	obj, got, err := decoder.Decode(body, &gvk, nil)
	var warnings []string
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		switch validation {
		case metav1.FieldValidationStrict:
			return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", gvk.Kind, gvk.Version, gvk.Kind, err))
		case "", metav1.FieldValidationWarn:
			for _, e := range strict.Errors() {
				warnings = append(warnings, e.Error())
			}
		}
		err = nil
	}
	if err != nil {
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized: %v", err))
	}
	if got != nil && *got != gvk {
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf(
			"%s in version %q cannot be handled as a %s: the API version in the data (%s) does not match the expected API version (%s)",
			got.Kind, got.Version, gvk.Kind, got.GroupVersion(), gvk.GroupVersion()))
	}
	u, err := toUnstructured(obj, gvk)
	return u, warnings, err
}

// Normalize gives u the form it would have had if a client had sent it: fields
// that the kind does not have are dropped, or refused if validation is
// "Strict".
func Normalize(k *kinds.Kind, u *unstructured.Unstructured, validation string) (*unstructured.Unstructured, []string, error) {
	body, err := json.Marshal(u.Object)
	if err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	return Decode(k.GroupVersionKind, body, validation)
}

// FromTyped makes an unstructured copy of an object of the client-go scheme.
func FromTyped(obj runtime.Object) (*unstructured.Unstructured, *kinds.Kind, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		k := kinds.ByKind(u.GroupVersionKind())
		if k == nil {
			return nil, nil, fmt.Errorf("kind %s is not served", u.GroupVersionKind())
		}
		out, _, err := Normalize(k, u, metav1.FieldValidationStrict)
		return out, k, err
	}
	gvks, _, err := scheme.Scheme.ObjectKinds(obj)
	if err != nil {
		return nil, nil, err
	}
	k := kinds.ByKind(gvks[0])
	if k == nil {
		return nil, nil, fmt.Errorf("kind %s is not served", gvks[0])
	}
	u, err := toUnstructured(obj, k.GroupVersionKind)
	return u, k, err
}

func toUnstructured(obj runtime.Object, gvk schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("convert %s: %w", gvk.Kind, err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(gvk)
	return u, nil
}

// into copies u to an object of the caller's.
func into(u *unstructured.Unstructured, obj runtime.Object) error {
	if out, ok := obj.(*unstructured.Unstructured); ok {
		out.Object = u.Object
		return nil
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj)
}

// DecodeOptions reads the options that a request carries in its body. Their
// kind says nothing: clients send it with any group, or not at all.
func DecodeOptions(body []byte, o *metav1.DeleteOptions) error {
	var err error
	if body[0] == '{' {
		err = json.Unmarshal(body, o)
	} else {
		_, _, err = decoder.Decode(body, new(schema.GroupVersion{Version: "v1"}.WithKind("DeleteOptions")), o)
	}
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("could not read DeleteOptions: %v", err))
	}
	return nil
}
