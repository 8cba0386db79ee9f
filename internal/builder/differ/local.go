// SPDX-License-Identifier: Apache-2.0

// Package differ has Local, an API server's own code for managed fields, pruning and
// defaults in this process. Its tests compare the predictions of package ssadiff for an
// apply with what Local and a real API server do. They create objects of many kinds: an
// intent that changes at random is applied again and again, while other managers apply,
// patch, update and remove managedFields. Each apply is compared with the prediction
// before it.
package differ

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Request is one request to a Local or to an API server.
type Request struct {
	Method, Path, Query, Type string
	Body                      any
}

// The types of a body.
const (
	asJSON  = "application/json"
	asMerge = "application/merge-patch+json"
	asApply = "application/apply-patch+yaml"
)

// Manager is the manager whose applies are predicted.
const Manager = "capi-topology"

// Local is the part of an API server that matters here, of the server's own
// code, with schemas converted as the server converts them. It has no CEL
// rules, admission, subresources or storage. It is not for concurrent use.
type Local struct {
	kinds   map[string]*localKind // by plural
	objects map[string]*unstructured.Unstructured
	version int
}

// NewLocal creates a Local that serves some kinds.
func NewLocal(crds []*apiextensionsv1.CustomResourceDefinition) (*Local, error) {
	l := &Local{kinds: map[string]*localKind{}, objects: map[string]*unstructured.Unstructured{}}
	for _, crd := range crds {
		k, err := newLocalKind(crd)
		if err != nil {
			return nil, fmt.Errorf("serve %s: %w", crd.Name, err)
		}
		l.kinds[crd.Spec.Names.Plural] = k
	}
	return l, nil
}

// Do answers a request as an API server does.
func (l *Local) Do(_ context.Context, r Request) (answer map[string]any, code int, err error) {
	parts := strings.Split(strings.Trim(r.Path, "/"), "/") // apis group version namespaces namespace plural name [status]
	if len(parts) != 7 || l.kinds[parts[5]] == nil {
		return refuse(http.StatusNotFound, "no such kind, or no subresources")
	}
	q, err := url.ParseQuery(r.Query)
	if err != nil {
		return nil, 0, err
	}
	body, err := json.Marshal(r.Body)
	if err != nil {
		return nil, 0, err
	}
	k, key := l.kinds[parts[5]], parts[5]+"/"+parts[6]
	c := call{kind: k, gv: schema.GroupVersion{Group: k.hub.Group, Version: parts[2]}, query: q, body: body, stored: l.objects[key]}
	switch {
	case r.Method == http.MethodDelete:
		delete(l.objects, key)
		return refuse(http.StatusOK, "deleted")
	case c.stored == nil && r.Type != asApply:
		return refuse(http.StatusNotFound, "not found")
	case r.Method == http.MethodGet:
		return c.answer(c.stored)
	}
	asked, code, err := c.next(r)
	if err != nil {
		return refuse(code, err)
	}
	next, err := c.admit(asked)
	if err != nil {
		return refuse(http.StatusUnprocessableEntity, err)
	}
	if c.stored != nil && timeless(next) == timeless(c.stored) {
		return c.answer(c.stored)
	}
	l.version++
	next.SetResourceVersion(strconv.Itoa(l.version))
	l.objects[key] = next
	return c.answer(next)
}

// call is one write to an object.
type call struct {
	kind   *localKind
	gv     schema.GroupVersion // of the request
	query  url.Values
	body   []byte
	stored *unstructured.Unstructured // nil if it is not there
}

// next is the object that a write requests, in any version, not yet admitted.
func (c *call) next(r Request) (runtime.Object, int, error) {
	manager := c.query.Get("fieldManager")
	if manager == "" {
		manager = "unnamed"
	}
	if r.Type == asApply {
		return c.apply(manager)
	}
	from, err := c.kind.ConvertToVersion(c.stored, c.gv)
	if err != nil {
		return nil, http.StatusInternalServerError, err
	}
	body := c.body
	if r.Type == asMerge {
		was, err := json.Marshal(from.(*unstructured.Unstructured).Object)
		if err != nil {
			return nil, http.StatusInternalServerError, err
		}
		if body, err = jsonpatch.MergePatch(was, body); err != nil {
			return nil, http.StatusBadRequest, err
		}
	}
	u, err := read(body)
	if err != nil {
		return nil, http.StatusBadRequest, err
	}
	if u.GetResourceVersion() != c.stored.GetResourceVersion() {
		return nil, http.StatusConflict, errConflict
	}
	c.kind.coerce(u)
	c.kind.Default(u)
	hub, err := c.kind.ConvertToVersion(u, c.kind.hub.GroupVersion())
	if err != nil {
		return nil, http.StatusInternalServerError, err
	}
	return c.kind.managers[c.gv.Version].UpdateNoErrors(c.stored.DeepCopy(), hub, manager), 0, nil
}

func (c *call) apply(manager string) (runtime.Object, int, error) {
	patch, err := read(c.body)
	if err != nil {
		return nil, http.StatusBadRequest, err
	}
	live := c.stored
	if live == nil {
		live = &unstructured.Unstructured{}
		live.SetGroupVersionKind(c.kind.hub)
	} else if v := patch.GetResourceVersion(); v != "" && v != live.GetResourceVersion() {
		return nil, http.StatusConflict, errConflict
	}
	next, err := c.kind.managers[c.gv.Version].Apply(live.DeepCopy(), patch, manager, c.query.Get("force") == "true")
	switch {
	case err == nil:
		return next, 0, nil
	case strings.Contains(err.Error(), "conflict"):
		return nil, http.StatusConflict, err
	default:
		return nil, http.StatusInternalServerError, err
	}
}

// admit converts an object to the form that is stored, or refuses it.
func (c *call) admit(next runtime.Object) (*unstructured.Unstructured, error) {
	hub, err := c.kind.ConvertToVersion(next, c.kind.hub.GroupVersion())
	if err != nil {
		return nil, err
	}
	u := hub.(*unstructured.Unstructured)
	c.kind.coerce(u)
	c.kind.Default(u)
	errs := validation.ValidateCustomResource(nil, u.Object, c.kind.validator)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, c.kind.structural, u.Object)...)
	return u, errs.ToAggregate()
}

func (c *call) answer(u *unstructured.Unstructured) (map[string]any, int, error) {
	out, err := c.kind.ConvertToVersion(u, c.gv)
	if err != nil {
		return nil, 0, err
	}
	text, err := json.Marshal(out.(*unstructured.Unstructured).Object)
	if err != nil {
		return nil, 0, err
	}
	again, err := read(text)
	if err != nil {
		return nil, 0, err
	}
	return again.Object, http.StatusOK, nil
}

func read(text []byte) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	return u, utiljson.Unmarshal(text, &u.Object)
}

func refuse(code int, err any) (map[string]any, int, error) {
	return map[string]any{"message": fmt.Sprint(err)}, code, nil
}

// timeless is an object without what a write that changes nothing moves too.
func timeless(u *unstructured.Unstructured) string {
	out := u.DeepCopy()
	out.SetResourceVersion("")
	entries := out.GetManagedFields()
	for i := range entries {
		entries[i].Time = nil
	}
	out.SetManagedFields(entries)
	text, err := json.Marshal(out.Object)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
