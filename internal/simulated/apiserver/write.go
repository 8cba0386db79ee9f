// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/listing"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/patching"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

// received reads the object in a request.
func (s *Server) received(w http.ResponseWriter, r *request) (*unstructured.Unstructured, error) {
	if err := readable(r.Header.Get("Content-Type")); err != nil {
		return nil, err
	}
	body, err := r.body()
	if err != nil {
		return nil, err
	}
	if r.media() == "application/yaml" && bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) { // it may be no JSON
		if asJSON, err := yaml.YAMLToJSON(body); err == nil {
			body = asJSON
		}
	}
	u, warnings, err := objects.Receive(r.kind, body, r.query.Get("fieldValidation"))
	warn(w, warnings)
	return u, err
}

// readable refuses what the server cannot decode, so that clients that may
// choose try another encoding.
func readable(contentType string) error {
	if contentType == "" {
		return nil
	}
	media, _, err := mime.ParseMediaType(contentType)
	switch media {
	case "application/json", "application/yaml", "application/vnd.kubernetes.protobuf":
		if err == nil {
			return nil
		}
	}
	return unlike(415, metav1.StatusReasonUnsupportedMediaType,
		"the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf", nil)
}

func (s *Server) create(w http.ResponseWriter, r *request) error {
	writing, err := s.writing(r)
	if err != nil {
		return err
	}
	u, err := s.received(w, r)
	if err != nil {
		return err
	}
	if r.kind.Resource == "certificatesigningrequests" {
		signedBy(u, r.user.Name, r.user.UID, r.user.Groups)
	}
	e, err := s.objects.Create(r.kind, r.namespace, u, writing)
	if err != nil {
		return err
	}
	return s.show(w, r, http.StatusCreated, e)
}

// signedBy records the user that requests a certificate.
func signedBy(u *unstructured.Unstructured, name, uid string, groups []string) {
	spec, _, _ := unstructured.NestedMap(u.Object, "spec")
	if spec == nil {
		return // refused when it is validated
	}
	list := make([]any, len(groups))
	for i, g := range groups {
		list[i] = g
	}
	spec["username"], spec["groups"] = name, list
	if uid != "" {
		spec["uid"] = uid
	}
	u.Object["spec"] = spec
}

func (s *Server) update(w http.ResponseWriter, r *request) error {
	writing, err := s.writing(r)
	if err != nil {
		return err
	}
	u, err := s.received(w, r)
	if err != nil {
		return err
	}
	if u.GetResourceVersion() == "" && r.kind.Versioned() {
		if _, err := s.objects.Entry(r.kind, r.namespace, r.name); err != nil {
			return err
		}
		return apierrors.NewInvalid(schema.GroupKind{Group: r.kind.Group, Kind: r.kind.Resource}, r.name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update"),
		})
	}
	e, err := s.objects.Update(r.kind, r.namespace, r.name, writing, func(*unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return u.DeepCopy(), nil
	})
	if err != nil {
		return err
	}
	return s.show(w, r, http.StatusOK, e)
}

func (s *Server) patch(w http.ResponseWriter, r *request) error {
	writing, err := s.writing(r)
	if err != nil {
		return err
	}
	media := r.media()
	body, err := r.body()
	if err != nil {
		return err
	}
	var e *store.Entry
	code := http.StatusOK
	switch types.PatchType(media) {
	case types.ApplyPatchType:
		var created bool
		if e, created, err = s.apply(w, r, body, writing); created {
			code = http.StatusCreated
		}
	case types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType:
		e, err = s.applyPatch(w, r, types.PatchType(media), body, writing)
	default:
		err = unlike(415, metav1.StatusReasonUnsupportedMediaType, "415: Unsupported Media Type", &metav1.StatusDetails{})
	}
	if err != nil {
		return err
	}
	return s.show(w, r, code, e)
}

func (s *Server) applyPatch(w http.ResponseWriter, r *request, form types.PatchType, body []byte, writing objects.Writing) (*store.Entry, error) {
	var warnings []string
	e, err := s.objects.Update(r.kind, r.namespace, r.name, writing, func(latest *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		next, err := patching.Patch(r.kind, latest, form, body)
		if err != nil {
			return nil, err
		}
		fitting, told, err := objects.Normalize(r.kind, next, r.query.Get("fieldValidation"))
		if warnings = told; err != nil && r.query.Get("fieldValidation") == metav1.FieldValidationStrict {
			_, what, _ := strings.Cut(err.Error(), "strict decoding error: ")
			raw, _ := next.MarshalJSON() // it was JSON
			err = apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), string(raw), "strict decoding error: "+what)})
		}
		return fitting, err
	})
	warn(w, warnings)
	return e, err
}

func (s *Server) apply(w http.ResponseWriter, r *request, body []byte, writing objects.Writing) (*store.Entry, bool, error) {
	var content map[string]any
	if err := yaml.Unmarshal(body, &content); err != nil {
		return nil, false, apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
	}
	raw, err := json.Marshal(content)
	if err != nil {
		return nil, false, apierrors.NewBadRequest(err.Error())
	}
	intent := &unstructured.Unstructured{}
	if err := intent.UnmarshalJSON(raw); err != nil {
		return nil, false, apierrors.NewBadRequest(err.Error())
	}
	if gvk := intent.GroupVersionKind(); gvk != r.kind.GroupVersionKind {
		return nil, false, apierrors.NewBadRequest(fmt.Sprintf("invalid object type: %v", gvk))
	}
	if intent.GetName() == "" {
		intent.SetName(r.name)
	}
	if intent.GetName() != r.name {
		return nil, false, apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", intent.GetName(), r.name))
	}
	return s.objects.Apply(r.kind, r.namespace, intent, r.query.Get("force") == "true", writing)
}

func (s *Server) delete(w http.ResponseWriter, r *request) error {
	o, err := deleteOptions(r)
	if err != nil {
		return err
	}
	e, gone, err := s.objects.Delete(r.kind, r.namespace, r.name, o)
	if err != nil {
		return err
	}
	if !gone {
		return s.show(w, r, http.StatusOK, e)
	}
	return respond(w, http.StatusOK, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: r.name, Group: r.kind.Group, Kind: r.kind.Resource, UID: e.UID},
	})
}

func (s *Server) deleteAll(w http.ResponseWriter, r *request) error {
	o, err := deleteOptions(r)
	if err != nil {
		return err
	}
	list, err := listOptions(r)
	if err != nil {
		return err
	}
	sel, err := listing.Select(r.kind, r.namespace, r.name, list)
	if err != nil {
		return err
	}
	entries, version := sel.Latest(s.objects.Entries())
	for _, e := range entries {
		if _, _, err := s.objects.Delete(r.kind, e.Key.Namespace, e.Key.Name, o); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	body, err := listBody(r, whole, entries, metav1.ListMeta{ResourceVersion: fmt.Sprint(version)})
	if err != nil {
		return err
	}
	respondRaw(w, http.StatusOK, body)
	return nil
}
