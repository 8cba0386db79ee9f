// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
)

// Version is the hooks of one group and version in a catalog.
type Version struct {
	GroupVersion schema.GroupVersion
	Hooks        []Hook

	// Conversions connect the hooks of this version with the next older one of each, or
	// the next newer one with them; it does not matter which Version lists a conversion.
	Conversions []Conversion
}

// Hook is one hook of a Version.
type Hook struct {
	// Func is a package level func(*Request, *Response). Its name is the name
	// of the hook. It is never called.
	Func any

	// Summary is one line, Description what an author must know; both are for
	// people and may hold Markdown.
	Summary, Description string

	// Tags group hooks in documents.
	Tags []string

	// Singleton means that an extension answers the hook once, not once for each handler.
	// Requests of such a hook may lack settings.
	Singleton bool

	// Cacheable means that the same request has the same answer for a while.
	Cacheable bool

	// MustAnswer means that no answer is not equivalent to an empty one: the
	// failurePolicy Ignore does not hide a missing answer.
	MustAnswer bool

	// Deprecated is nil, or defines since when and what to use.
	Deprecated *Deprecation
}

// Deprecation means that a version of a hook will be removed.
type Deprecation struct {
	// Since is the release that announced it, such as v1.4.0.
	Since string

	// Date is the day of that release, such as 2026-11-20.
	Date string

	// Use is what to use instead. Left out, it is the newest version of the
	// hook.
	Use string
}

// Descriptor is everything that a catalog contains about one version of a hook. What it
// points to belongs to the catalog and must not be changed.
type Descriptor struct {
	GroupVersionHook

	// Func is the function that represents the hook.
	Func any

	Summary, Description string
	Tags                 []string
	Singleton, Cacheable bool
	MustAnswer           bool

	// Blocking means that the response can block what follows the hook, through
	// retryAfterSeconds.
	Blocking bool

	// Deprecated is nil for a version that is not deprecated.
	Deprecated *Deprecation

	// Request and Response are the kinds of the messages.
	Request, Response schema.GroupVersionKind

	// RequestType and ResponseType are structs; pointers to them are the
	// messages.
	RequestType, ResponseType reflect.Type
}

// Catalog is a set of hooks. The zero value has none; use New.
type Catalog struct {
	hooks    []Descriptor                     // sorted
	byName   map[GroupVersionHook]*Descriptor //
	byFunc   map[uintptr]*Descriptor          //
	byType   map[reflect.Type]*Descriptor     // of requests and of responses
	versions map[GroupHook][]*Descriptor      // newest first
	steps    map[GroupVersionHook]Conversion  // from the newer one
}

// Hooks lists all versions of all hooks by group, version (oldest first) and
// name.
func (c *Catalog) Hooks() []Descriptor { return slices.Clone(c.hooks) }

// Lookup finds a hook by its function, such as hooksv1.BeforeClusterCreate.
func (c *Catalog) Lookup(hook any) (Descriptor, error) {
	f := reflect.ValueOf(hook)
	if f.Kind() != reflect.Func {
		return Descriptor{}, fmt.Errorf("look up a hook: %T is not a function", hook)
	}
	if d := c.byFunc[f.Pointer()]; d != nil && !f.IsNil() {
		return *d, nil
	}
	return Descriptor{}, fmt.Errorf("look up hook %s: it is not in this catalog", funcName(f))
}

// Find finds a hook by group, version and name, in the case the name has.
func (c *Catalog) Find(h GroupVersionHook) (Descriptor, error) {
	if d := c.byName[h]; d != nil {
		return *d, nil
	}
	if vs := c.versions[h.GroupHook()]; len(vs) > 0 {
		known := make([]string, len(vs))
		for i, v := range vs {
			known[i] = v.Version
		}
		return Descriptor{}, fmt.Errorf("hook %s of %s has no version %q, but %s", h.Hook, h.Group, h.Version, strings.Join(known, ", "))
	}
	return Descriptor{}, fmt.Errorf("there is no hook %s", h)
}

// Versions lists the versions of a hook, newest first. It is empty if the catalog does
// not have the hook.
func (c *Catalog) Versions(h GroupHook) []Descriptor {
	vs := make([]Descriptor, len(c.versions[h]))
	for i, d := range c.versions[h] {
		vs[i] = *d
	}
	return vs
}

// Named finds a hook by text from a user: the name of a hook in any case, which means its
// newest version, or group/version/hook. The error lists the available names.
func (c *Catalog) Named(name string) (Descriptor, error) {
	var found []*Descriptor
	for h, vs := range c.versions {
		if strings.EqualFold(h.Hook, name) {
			found = append(found, vs[0])
		}
		for _, d := range vs {
			if strings.EqualFold(d.String(), name) {
				return *d, nil
			}
		}
	}
	if len(found) == 1 {
		return *found[0], nil
	}
	var names []string
	for _, d := range found {
		names = append(names, d.String())
	}
	if len(found) > 1 {
		slices.Sort(names)
		return Descriptor{}, fmt.Errorf("hook %q is in several groups: use one of %s", name, strings.Join(names, ", "))
	}
	for h := range c.versions {
		names = append(names, h.Hook)
	}
	slices.Sort(names)
	return Descriptor{}, fmt.Errorf("there is no hook %q; there are %s", name, strings.Join(slices.Compact(names), ", "))
}

// NewRequest returns an empty request with its kind and version.
func (c *Catalog) NewRequest(h GroupVersionHook) (runtime.Object, error) {
	d, err := c.Find(h)
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	return d.newRequest(), nil
}

// NewResponse returns an empty response with its kind and version.
func (c *Catalog) NewResponse(h GroupVersionHook) (hooksv1.ResponseObject, error) {
	d, err := c.Find(h)
	if err != nil {
		return nil, fmt.Errorf("make a response: %w", err)
	}
	return d.newResponse(), nil
}

func (d *Descriptor) newRequest() runtime.Object {
	o := reflect.New(d.RequestType).Interface().(runtime.Object)
	o.GetObjectKind().SetGroupVersionKind(d.Request)
	return o
}

func (d *Descriptor) newResponse() hooksv1.ResponseObject {
	o := reflect.New(d.ResponseType).Interface().(hooksv1.ResponseObject)
	o.GetObjectKind().SetGroupVersionKind(d.Response)
	return o
}

func byGroupVersionName(a, b Descriptor) int {
	return cmp.Or(
		strings.Compare(a.Group, b.Group),
		older(a.Version, b.Version),
		strings.Compare(a.Hook, b.Hook),
	)
}
