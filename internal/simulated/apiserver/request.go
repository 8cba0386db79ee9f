// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/kit/sanitize"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/access"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
)

// maxBody is what an API server accepts in one request.
const maxBody = 3 << 20

// protobuf is the start of an object in this encoding.
var protobuf = []byte("k8s\x00")

// request is a parsed request of a client.
type request struct {
	*http.Request
	query url.Values
	user  access.User

	// For a resource; the rest is empty otherwise.
	verb      string
	gvr       schema.GroupVersionResource
	kind      *kinds.Kind // nil if it is not served
	namespace string
	name      string
	sub       string
	rest      []string // of the path, below the subresource
}

// parse reads the path of a request.
func (s *Server) parse(r *http.Request) *request {
	req := &request{Request: r, query: r.URL.Query(), verb: strings.ToLower(r.Method)}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		req.gvr.Version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		req.gvr.Group, req.gvr.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return req
	}
	if parts[0] == "namespaces" && len(parts) > 1 {
		req.namespace = parts[1]
		if len(parts) > 2 && !slices.Contains([]string{"status", "finalize"}, parts[2]) {
			parts = parts[2:]
		}
	}
	req.gvr.Resource = parts[0]
	if len(parts) > 1 {
		req.name = parts[1]
	}
	if len(parts) > 2 {
		req.sub = parts[2]
	}
	if len(parts) > 3 {
		req.rest = parts[3:]
	}
	if req.kind = kinds.Everywhere().ByResource(req.gvr); req.kind == nil {
		req.kind = s.objects.Kinds().ByResource(req.gvr)
	}
	req.verb = verb(r.Method, req.name != "", req.query.Get("watch"))
	return req
}

// verb is the verb of a method for a resource.
func verb(method string, named bool, watch string) string {
	switch method {
	case http.MethodGet, http.MethodHead:
		switch {
		case watch == "true" || watch == "1":
			return "watch"
		case named:
			return "get"
		}
		return "list"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		if named {
			return "delete"
		}
		return "deletecollection"
	}
	return strings.ToLower(method)
}

func (r *request) attributes() access.Attributes {
	if r.gvr.Resource == "" {
		return access.Attributes{Verb: r.verb, Path: r.URL.Path}
	}
	a := access.Attributes{Verb: r.verb, Group: r.gvr.Group, Resource: r.gvr.Resource, Sub: r.sub, Namespace: r.namespace, Name: r.name}
	if a.Verb == "list" || a.Verb == "watch" {
		if byField, err := fields.ParseSelector(r.query.Get("fieldSelector")); err == nil { // an error is returned once the request is authorized
			if name, ok := byField.RequiresExactMatch("metadata.name"); ok && a.Name == "" {
				a.Name = name
			}
			a.NodeName, _ = byField.RequiresExactMatch("spec.nodeName")
		}
	}
	return a
}

// media is the type of the body, without its parameters.
func (r *request) media() string {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return media
}

// body reads all of the request, up to the limit.
func (r *request) body() ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if tooBig, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", tooBig.Limit))
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("read request: %v", err))
	}
	if bytes.HasPrefix(body, protobuf) { // which no parser of YAML accepts
		return body, nil
	}
	if err := sanitize.CheckYAML(body); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body of the request is %v", err))
	}
	return body, nil
}

// impersonated returns the user that an administrator impersonates.
func (s *Server) impersonated(r *http.Request, u access.User) (access.User, error) {
	name := r.Header.Get("Impersonate-User")
	if name == "" {
		return u, nil
	}
	if !u.In(access.Masters) && !u.In(access.ClusterAdmins) {
		return u, apierrors.NewForbidden(schema.GroupResource{Resource: "users"}, name, fmt.Errorf("User %q cannot impersonate users", u.Name)) // the words of an API server
	}
	return access.Proven(name, r.Header.Get("Impersonate-Uid"), r.Header.Values("Impersonate-Group")...), nil
}

func unauthorized() error { return apierrors.NewUnauthorized("Unauthorized") }

func forbidden(u access.User, r *request) error {
	a := r.attributes()
	why := fmt.Errorf("User %q %s", u.Name, a) // the words of an API server
	if a.Resource == "" {
		err := apierrors.NewForbidden(schema.GroupResource{}, "", why)
		err.ErrStatus.Message = fmt.Sprintf("forbidden: %v", why)
		return err
	}
	return apierrors.NewForbidden(r.gvr.GroupResource(), r.name, why)
}
