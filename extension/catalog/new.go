// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"errors"
	"fmt"
	"go/token"
	"reflect"
	goruntime "runtime"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/version"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
)

var (
	objectType   = reflect.TypeFor[runtime.Object]()
	requestType  = reflect.TypeFor[hooksv1.RequestObject]()
	responseType = reflect.TypeFor[hooksv1.ResponseObject]()
	retryType    = reflect.TypeFor[hooksv1.RetryResponseObject]()
	typeMetaType = reflect.TypeFor[metav1.TypeMeta]()
)

// New returns a catalog. The error names every mistake, not only the first.
func New(versions ...Version) (*Catalog, error) {
	b := &builder{c: &Catalog{
		byName:   map[GroupVersionHook]*Descriptor{},
		byFunc:   map[uintptr]*Descriptor{},
		byType:   map[reflect.Type]*Descriptor{},
		versions: map[GroupHook][]*Descriptor{},
		steps:    map[GroupVersionHook]Conversion{},
	}}
	seen := map[string]bool{}
	for _, v := range versions {
		if gv := v.GroupVersion.String(); seen[gv] {
			b.mistake("group version %s is given twice", gv)
			continue
		}
		seen[v.GroupVersion.String()] = true
		b.addVersion(v)
	}
	b.sort()
	for _, v := range versions {
		for _, conv := range v.Conversions {
			b.addConversion(conv)
		}
	}
	b.checkChains()
	b.checkDeprecations()
	if err := errors.Join(b.mistakes...); err != nil {
		return nil, err
	}
	return b.c, nil
}

type builder struct {
	c        *Catalog
	all      []*Descriptor
	mistakes []error
}

func (b *builder) mistake(format string, args ...any) {
	b.mistakes = append(b.mistakes, fmt.Errorf(format, args...))
}

func (b *builder) addVersion(v Version) {
	if v.GroupVersion.Group == "" {
		b.mistake("version %q has no group", v.GroupVersion.Version)
	} else if bad := validation.IsDNS1123Subdomain(v.GroupVersion.Group); len(bad) > 0 {
		b.mistake("group %q: %s", v.GroupVersion.Group, strings.Join(bad, "; "))
	}
	if _, err := TrackOf(v.GroupVersion.Version); err != nil {
		b.mistake("group %q: %w", v.GroupVersion.Group, err)
	}
	for _, h := range v.Hooks {
		b.addHook(v, h)
	}
}

func (b *builder) addHook(v Version, h Hook) {
	f := reflect.ValueOf(h.Func)
	d, err := describe(v, h)
	if err != nil {
		b.mistake("hook %s of %s: %w", funcName(f), v.GroupVersion, err)
		return
	}
	if err := settingsAndOutcome(d); err != nil {
		b.mistake("hook %s: %w", d, err)
	}
	if had := b.c.byFunc[f.Pointer()]; had != nil {
		b.mistake("hook %s: its function belongs to %s already", d, had)
		return
	}
	for _, had := range b.all {
		if had.Group != d.Group || !strings.EqualFold(had.Hook, d.Hook) {
			continue
		}
		if had.Version == d.Version {
			b.mistake("hook %s has the path of %s", d, had)
			return
		}
		if had.Hook != d.Hook {
			b.mistake("hook %s differs from %s in case only", d, had)
		}
	}
	for _, t := range []reflect.Type{d.RequestType, d.ResponseType} {
		if had := b.c.byType[t]; had != nil && had.Hook != d.Hook {
			b.mistake("hook %s: %s belongs to %s already", d, t, had)
		} else if had != nil {
			b.mistake("hook %s: %s belongs to version %s already", d, t, had.Version)
		}
		b.c.byType[t] = d
	}
	b.c.byFunc[f.Pointer()] = d
	b.c.byName[d.GroupVersionHook] = d
	b.all = append(b.all, d)
}

// describe returns the description of a hook from its function.
func describe(v Version, h Hook) (*Descriptor, error) {
	f := reflect.ValueOf(h.Func)
	if f.Kind() != reflect.Func {
		return nil, fmt.Errorf("%T is not a function", h.Func)
	}
	if f.IsNil() {
		return nil, errors.New("the function is nil")
	}
	name := funcName(f)
	if !token.IsIdentifier(name) {
		return nil, errors.New("a hook is known by the name of a function of a package: a closure, a method and a generic function have none")
	}
	t := f.Type()
	if t.NumIn() != 2 || t.NumOut() != 0 || t.IsVariadic() {
		return nil, fmt.Errorf("%s is not of the form func(*Request, *Response)", t)
	}
	if t.In(0) == t.In(1) {
		return nil, fmt.Errorf("request and response are both %s", t.In(0))
	}
	gv := v.GroupVersion
	d := &Descriptor{
		GroupVersionHook: GroupVersionHook{Group: gv.Group, Version: gv.Version, Hook: name},
		Func:             h.Func,
		Summary:          h.Summary, Description: h.Description, Tags: slices.Clone(h.Tags),
		Singleton: h.Singleton, Cacheable: h.Cacheable, MustAnswer: h.MustAnswer, Blocking: t.In(1).Implements(retryType),
	}
	if h.Deprecated != nil {
		d.Deprecated = new(*h.Deprecated)
	}
	if err := errors.Join(message(t.In(0), "request"), message(t.In(1), "response")); err != nil {
		return nil, err
	}
	d.RequestType, d.ResponseType = t.In(0).Elem(), t.In(1).Elem()
	d.Request, d.Response = gv.WithKind(d.RequestType.Name()), gv.WithKind(d.ResponseType.Name())
	return d, nil
}

// message checks what requests and responses have in common.
func message(t reflect.Type, what string) error {
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("the %s %s is not a pointer to a struct", what, t)
	}
	if meta, ok := t.Elem().FieldByName("TypeMeta"); !ok || !meta.Anonymous || meta.Type != typeMetaType {
		return fmt.Errorf("the %s %s does not embed metav1.TypeMeta", what, t)
	}
	if !t.Implements(objectType) {
		return fmt.Errorf("the %s %s is no runtime.Object: it has no DeepCopyObject", what, t)
	}
	return nil
}

// settingsAndOutcome checks the common fields of all requests, and of all responses.
func settingsAndOutcome(d *Descriptor) error {
	var errs []error
	if t := reflect.PointerTo(d.RequestType); !d.Singleton && !t.Implements(requestType) {
		errs = append(errs, fmt.Errorf("the request %s is no hooksv1.RequestObject: it has no settings", t))
	}
	if t := reflect.PointerTo(d.ResponseType); !t.Implements(responseType) {
		errs = append(errs, fmt.Errorf("the response %s is no hooksv1.ResponseObject: it has no status and message", t))
	}
	return errors.Join(errs...)
}

// sort sorts hooks, and the versions of each one.
func (b *builder) sort() {
	for _, d := range b.all {
		b.c.hooks = append(b.c.hooks, *d)
		b.c.versions[d.GroupHook()] = append(b.c.versions[d.GroupHook()], d)
	}
	slices.SortFunc(b.c.hooks, byGroupVersionName)
	for _, vs := range b.c.versions {
		slices.SortFunc(vs, func(x, y *Descriptor) int { return older(y.Version, x.Version) })
	}
}

func (b *builder) addConversion(conv Conversion) {
	from, to := b.hookOf(conv.newer), b.hookOf(conv.older)
	if from == nil || to == nil {
		return
	}
	switch {
	case conv.down == nil || conv.up == nil:
		b.mistake("conversion of %s to %s lacks a function", from, to.Version)
	case from.GroupHook() != to.GroupHook():
		b.mistake("conversion of %s to %s: these are different hooks", from, to)
	case older(from.Version, to.Version) <= 0:
		b.mistake("conversion of %s to %s: it must lead from a newer version to an older one", from, to.Version)
	default:
		vs := b.c.versions[from.GroupHook()]
		if next := vs[slices.Index(vs, from)+1]; next != to {
			b.mistake("conversion of %s to %s skips %s", from, to.Version, next.Version)
		} else if _, had := b.c.steps[from.GroupVersionHook]; had {
			b.mistake("conversion of %s to %s is given twice", from, to.Version)
		}
		b.c.steps[from.GroupVersionHook] = conv
	}
}

// hookOf finds a hook that a conversion names. A missing hook is the mistake.
func (b *builder) hookOf(f any) *Descriptor {
	v := reflect.ValueOf(f)
	if v.Kind() != reflect.Func || v.IsNil() {
		b.mistake("conversion of a hook whose function is nil")
		return nil
	}
	d := b.c.byFunc[v.Pointer()]
	if d == nil {
		b.mistake("conversion of %s, which is not in this catalog", funcName(v))
	}
	return d
}

// checkChains verifies that each version has a conversion to the one before it.
func (b *builder) checkChains() {
	for i := range b.c.hooks {
		h := b.c.hooks[i].GroupVersionHook
		vs := b.c.versions[h.GroupHook()]
		at := slices.IndexFunc(vs, func(d *Descriptor) bool { return d.GroupVersionHook == h })
		if at+1 == len(vs) {
			continue
		}
		if _, ok := b.c.steps[h]; !ok {
			b.mistake("hook %s has no conversion to %s (rule 2)", h, vs[at+1].Version)
		}
	}
}

// checkDeprecations checks deprecations against rule 3.
func (b *builder) checkDeprecations() {
	for i := range b.c.hooks {
		d := b.c.byName[b.c.hooks[i].GroupVersionHook]
		if d.Deprecated == nil {
			continue
		}
		if d.Deprecated.Since == "" {
			b.mistake("hook %s is deprecated, but since which release is not said", d)
		}
		if _, err := time.Parse(time.DateOnly, d.Deprecated.Date); err != nil {
			b.mistake("hook %s is deprecated, but the date %q is not of the form 2026-11-20", d, d.Deprecated.Date)
		}
		instead := b.replacement(d)
		if instead == nil {
			b.mistake("hook %s is deprecated, but no newer version is at least as stable (rule 3)", d)
			continue
		}
		if d.Deprecated.Use == "" {
			d.Deprecated.Use = instead.String()
		}
		b.c.hooks[i] = *d
	}
}

// replacement is the newest version of the hook that can replace it.
func (b *builder) replacement(d *Descriptor) *Descriptor {
	needed, _ := TrackOf(d.Version) // reported by addVersion
	for _, other := range b.c.versions[d.GroupHook()] {
		track, _ := TrackOf(other.Version)
		if older(d.Version, other.Version) < 0 && other.Deprecated == nil && track >= needed {
			return other
		}
	}
	return nil
}

// older orders versions as Kubernetes does: alpha before beta before GA.
func older(a, b string) int { return version.CompareKubeAwareVersionStrings(a, b) }

// funcName is the name of a function without its package. That of a closure or method is
// not an identifier.
func funcName(f reflect.Value) string {
	if f.Kind() != reflect.Func || f.IsNil() {
		return "without a name"
	}
	full := goruntime.FuncForPC(f.Pointer()).Name()
	_, name, _ := strings.Cut(full[strings.LastIndex(full, "/")+1:], ".")
	return name
}
