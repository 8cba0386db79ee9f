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

// Version is what one group and version brings into a catalog.
type Version struct {
	GroupVersion schema.GroupVersion
	Hooks        []Hook

	// Conversions lead from the hooks of this version to the next older one
	// of each, or from the next newer one to them; which Version lists a
	// conversion makes no difference.
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

	// Singleton says that an extension answers the hook once, not once for
	// each handler. Requests of such a hook may be without settings.
	Singleton bool

	// Cacheable says that the same request has the same answer for a while.
	Cacheable bool

	// MustAnswer says that no answer is not as good as an empty one: the
	// failurePolicy Ignore does not hide that there is none.
	MustAnswer bool

	// Deprecated is nil, or says since when and what to use.
	Deprecated *Deprecation
}

// Deprecation says that a version of a hook will go.
type Deprecation struct {
	// Since is the release that announced it, such as v1.4.0.
	Since string

	// Date is the day of that release, such as 2026-11-20.
	Date string

	// Use is what to use instead. Left out, it is the newest version of the
	// hook.
	Use string
}

// Descriptor is all that a catalog knows of one version of a hook. What it
// points to belongs to the catalog and is for reading.
type Descriptor struct {
	GroupVersionHook

	// Func is the function that stands for the hook.
	Func any

	Summary, Description string
	Tags                 []string
	Singleton, Cacheable bool
	MustAnswer           bool

	// Blocking says that the response can hold up what comes after the hook,
	// through retryAfterSeconds.
	Blocking bool

	// Deprecated is nil for a version that stays.
	Deprecated *Deprecation

	// Request and Response are what the messages say they are.
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

// Versions lists the versions of a hook, newest first. There are none if the
// catalog does not know it.
func (c *Catalog) Versions(h GroupHook) []Descriptor {
	vs := make([]Descriptor, len(c.versions[h]))
	for i, d := range c.versions[h] {
		vs[i] = *d
	}
	return vs
}

// Named finds what a person means: the name of a hook in any case, which
// stands for its newest version, or group/version/hook. The error lists the
// names there are.
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

// NewRequest makes an empty request that says what it is.
func (c *Catalog) NewRequest(h GroupVersionHook) (runtime.Object, error) {
	d, err := c.Find(h)
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	return d.newRequest(), nil
}

// NewResponse makes an empty response that says what it is.
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
