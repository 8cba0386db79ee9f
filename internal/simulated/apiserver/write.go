// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

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
	return apierrors.NewGenericServerResponse(415, "", noResource, "",
		fmt.Sprintf("the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf, got %q", media), 0, false)
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

// signedBy records who asks for a certificate.
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
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return apierrors.NewGenericServerResponse(415, "", noResource, "", "the Content-Type of a patch must say its kind", 0, false)
	}
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
		err = apierrors.NewGenericServerResponse(415, "", noResource, "", fmt.Sprintf("the body of the request was in an unknown format - got %q", media), 0, false)
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
		next, warnings, err = objects.Normalize(r.kind, next, r.query.Get("fieldValidation"))
		return next, err
	})
	warn(w, warnings)
	return e, err
}

func (s *Server) apply(w http.ResponseWriter, r *request, body []byte, writing objects.Writing) (*store.Entry, bool, error) {
	if r.query.Get("fieldManager") == "" {
		return nil, false, apierrors.NewBadRequest("PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch")
	}
	var content map[string]any
	if err := yaml.Unmarshal(body, &content); err != nil {
		return nil, false, apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
	}
	raw, err := json.Marshal(content)
	if err != nil {
		return nil, false, apierrors.NewBadRequest(err.Error())
	}
	if _, warnings, err := objects.Receive(r.kind, raw, r.query.Get("fieldValidation")); err != nil {
		return nil, false, err
	} else {
		warn(w, warnings)
	}
	intent := &unstructured.Unstructured{}
	if err := intent.UnmarshalJSON(raw); err != nil {
		return nil, false, apierrors.NewBadRequest(err.Error())
	}
	if intent.GetName() == "" {
		intent.SetName(r.name)
	}
	if intent.GetName() != r.name {
		return nil, false, apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", intent.GetName(), r.name))
	}
	return s.objects.Apply(r.kind, r.namespace, intent, isTrue(r.query.Get("force")), writing)
}

// deleteOptions reads how to delete, from the body or, failing that, the
// query.
func deleteOptions(r *request) (metav1.DeleteOptions, error) {
	var o metav1.DeleteOptions
	body, err := r.body()
	if err != nil {
		return o, err
	}
	if len(body) > 0 {
		if err := readable(r.Header.Get("Content-Type")); err != nil {
			return o, err
		}
		return o, objects.DecodeOptions(body, &o)
	}
	if p := r.query.Get("propagationPolicy"); p != "" {
		o.PropagationPolicy = new(metav1.DeletionPropagation(p))
	}
	o.DryRun = r.query["dryRun"]
	return o, nil
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
	sel, err := selectionOf(r)
	if err != nil {
		return err
	}
	entries, version := s.listOf(r.kind, sel)
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
