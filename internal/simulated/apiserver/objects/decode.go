// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/unstructuredscheme"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
)

// decoder reads JSON, YAML and protobuf, and reports unknown and repeated fields.
var decoder = sync.OnceValue(func() runtime.Decoder {
	return serializer.NewCodecFactory(kinds.Scheme(), serializer.EnableStrict).UniversalDeserializer()
})

// untyped reads JSON and YAML of kinds without a Go type.
func untyped(body []byte) runtime.Decoder {
	isYAML := len(body) > 0 && body[0] != '{'
	return jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, unstructuredscheme.NewUnstructuredCreator(),
		unstructuredscheme.NewUnstructuredObjectTyper(), jsonserializer.SerializerOptions{Strict: true, Yaml: isYAML})
}

// Decode reads an object of kind gvk from a request. What the kind does not
// have is dropped, and told: as warnings, or as an error if validation is
// "Strict".
func Decode(gvk schema.GroupVersionKind, body []byte, validation string) (*unstructured.Unstructured, []string, error) {
	if len(body) == 0 {
		return nil, nil, unrecognized(errors.New("couldn't get version/kind; json parse error: unexpected end of JSON input"), nil, gvk, body)
	}
	obj, got, err := decoder().Decode(body, &gvk, nil)
	var found []error
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		found, err = strict.Errors(), nil
	}
	if err != nil {
		return nil, nil, unrecognized(err, got, gvk, body)
	}
	if got != nil {
		if err := checkKind(*got, gvk); err != nil {
			return nil, nil, err
		}
	}
	warnings, err := reportProblems(gvk, found, validation)
	if err != nil {
		return nil, nil, err
	}
	u, err := toUnstructured(obj, gvk)
	return u, warnings, err
}

// unrecognized is the error for a body of a wrong kind, in the words of an API
// server.
func unrecognized(err error, got *schema.GroupVersionKind, want schema.GroupVersionKind, body []byte) error {
	if got != nil && got.Kind != "" {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", got.Kind, got.Version, want.Kind, err))
	}
	const shown = 30
	text := string(body[:min(len(body), shown)])
	if !strings.HasPrefix(text, "{") {
		text = hex.EncodeToString([]byte(text))
	}
	switch {
	case len(body) == 0:
		text = "<empty>"
	case len(body) > shown:
		text += " ..."
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)", want.Kind, err, text))
}

func checkKind(got, want schema.GroupVersionKind) error {
	if got == want {
		return nil
	}
	if got.GroupVersion() == want.GroupVersion() {
		internal, _, _ := strings.Cut(cmp.Or(want.Group, "core"), ".")
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: converting (%s.%s) to (%s.%s): unknown conversion",
			got.Kind, got.Version, want.Kind, got.Version, got.Kind, internal, want.Kind))
	}
	return apierrors.NewBadRequest(fmt.Sprintf(
		"%s in version %q cannot be handled as a %s: the API version in the data (%s) does not match the expected API version (%s)",
		got.Kind, got.Version, want.Kind, got.GroupVersion(), want.GroupVersion()))
}

// reportProblems returns the problems with the fields of an object as an error, as warnings
// or not at all, as the client requests.
func reportProblems(gvk schema.GroupVersionKind, found []error, validation string) (warnings []string, err error) {
	switch {
	case len(found) == 0:
	case validation == metav1.FieldValidationStrict:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", gvk.Kind, gvk.Version, gvk.Kind, runtime.NewStrictDecodingError(found)))
	case validation == "" || validation == metav1.FieldValidationWarn:
		for _, e := range found {
			warnings = append(warnings, e.Error())
		}
	}
	return warnings, nil
}

// Normalize gives u the form it would have had if a client had sent it: fields
// that the kind does not have are dropped, or refused if validation is
// "Strict".
func Normalize(k *kinds.Kind, u *unstructured.Unstructured, validation string) (*unstructured.Unstructured, []string, error) {
	body, err := json.Marshal(u.Object)
	if err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	return Receive(k, body, validation)
}

// Receive reads an object of kind k from a request, as Decode does.
func Receive(k *kinds.Kind, body []byte, validation string) (*unstructured.Unstructured, []string, error) {
	if k.Custom == nil {
		return Decode(k.GroupVersionKind, body, validation)
	}
	obj, got, err := untyped(body).Decode(body, &k.GroupVersionKind, &unstructured.Unstructured{})
	var found []error
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		found, err = strict.Errors(), nil
	}
	u, ok := obj.(*unstructured.Unstructured)
	if err != nil || !ok {
		return nil, nil, unrecognized(err, got, k.GroupVersionKind, body)
	}
	if *got != k.GroupVersionKind {
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", got.GroupVersion(), k.GroupVersion()))
	}
	unknown, err := k.Custom.Fit(u)
	if err != nil {
		return nil, nil, unrecognized(err, got, k.GroupVersionKind, body)
	}
	for _, name := range unknown {
		found = append(found, fmt.Errorf("unknown field %q", name))
	}
	warnings, err := reportProblems(k.GroupVersionKind, found, validation)
	return u, warnings, err
}

// FromTyped converts an object of the client-go scheme to an unstructured copy.
func (s *Store) FromTyped(obj Object) (*unstructured.Unstructured, *kinds.Kind, error) {
	k, err := s.kindOf(obj)
	if err != nil {
		return nil, nil, err
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		out, _, err := Normalize(k, u, metav1.FieldValidationStrict)
		return out, k, err
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

// DecodeOptions reads the options in the body of a request. Their kind has no
// meaning: clients send it with any group, or not at all.
func DecodeOptions(body []byte, o *metav1.DeleteOptions) error {
	var err error
	if body[0] == '{' {
		err = json.Unmarshal(body, o)
	} else {
		_, _, err = decoder().Decode(body, new(schema.GroupVersion{Version: "v1"}.WithKind("DeleteOptions")), o)
	}
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("could not read DeleteOptions: %v", err))
	}
	return nil
}
