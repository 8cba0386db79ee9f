// SPDX-License-Identifier: Apache-2.0

package patching

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	extensions "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	registration "k8s.io/kube-aggregator/pkg/generated/openapi"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
)

// Track writes into next that manager changed what differs from latest, which
// is nil at creation. Neither is changed; next may be part of the result.
func Track(k *kinds.Kind, sub string, latest, next *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error) {
	fm, err := managers.get(k, sub)
	if err != nil {
		return nil, err
	}
	if latest == nil {
		latest = blank(k)
	}
	return asUnstructured(fm.UpdateNoErrors(latest.DeepCopy(), next, manager))
}

// Apply merges the intent of manager into latest, which is nil if the object does
// not exist yet. The error is a Conflict when another manager has set a field to
// another value, unless force takes it over.
func Apply(k *kinds.Kind, sub string, latest, intent *unstructured.Unstructured, manager string, force bool) (*unstructured.Unstructured, error) {
	fm, err := managers.get(k, sub)
	if err != nil {
		return nil, err
	}
	if latest == nil {
		latest = blank(k)
	}
	out, err := fm.Apply(latest.DeepCopy(), intent, manager, force)
	if err != nil {
		return nil, err
	}
	return asUnstructured(out)
}

func asUnstructured(obj runtime.Object) (*unstructured.Unstructured, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("track fields: unexpected %T", obj)
	}
	return u, nil
}

// blank is the object with which a new one is compared: one of the kind in which
// nothing is set, so that fields that are always there have no manager.
func blank(k *kinds.Kind) *unstructured.Unstructured {
	return zero(k.GroupVersionKind)
}

func zero(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	if obj, err := kinds.Scheme().New(gvk); err == nil {
		u.Object, _ = runtime.DefaultUnstructuredConverter.ToUnstructured(obj) // a zero value of a known type
	}
	u.SetGroupVersionKind(gvk)
	return u
}

// managers holds one field manager for each kind and subresource, for all
// clusters: they have no state but the schema, which is large.
var managers = fieldManagers{made: map[managerKey]*managedfields.FieldManager{}}

type managerKey struct {
	gvk schema.GroupVersionKind
	sub string
}

type fieldManagers struct {
	mu   sync.Mutex // guards made
	made map[managerKey]*managedfields.FieldManager
}

// converters parse the schemas of all kinds when they are first needed: those
// of client-go, and of the two groups that are not in it.
var converters = map[string]func() managedfields.TypeConverter{
	"": sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(kinds.Scheme()) }),
	apiextensionsv1.GroupName: sync.OnceValue(func() managedfields.TypeConverter {
		return described(extensions.GetOpenAPIDefinitions, apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	}),
	apiregistrationv1.GroupName: sync.OnceValue(func() managedfields.TypeConverter {
		return described(registration.GetOpenAPIDefinitions, apiregistrationv1.SchemeGroupVersion.WithKind("APIService"))
	}),
}

// described creates a converter from the OpenAPI models of a library.
func described(definitions common.GetOpenAPIDefinitions, gvk schema.GroupVersionKind) managedfields.TypeConverter {
	models := map[string]*spec.Schema{}
	for name, d := range definitions(func(name string) spec.Ref { return spec.MustCreateRef("#/components/schemas/" + name) }) {
		models[name] = &d.Schema
	}
	obj, err := kinds.Scheme().New(gvk)
	if named, ok := obj.(interface{ OpenAPIModelName() string }); err == nil && ok {
		models[named.OpenAPIModelName()].AddExtension("x-kubernetes-group-version-kind", []any{
			map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind},
		})
	}
	types, err := managedfields.NewTypeConverter(models, false)
	if err != nil {
		return managedfields.NewDeducedTypeConverter() // not reached: the models are compiled in
	}
	return types
}

func converter(group string) managedfields.TypeConverter {
	if of := converters[group]; of != nil {
		return of()
	}
	return converters[""]()
}

func (m *fieldManagers) get(k *kinds.Kind, sub string) (*managedfields.FieldManager, error) {
	if k.Custom != nil {
		return k.Custom.Manager(sub)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := managerKey{k.GroupVersionKind, sub}
	if fm := m.made[key]; fm != nil {
		return fm, nil
	}
	fm, err := managedfields.NewDefaultFieldManager(converter(k.Group), oneVersion{}, oneVersion{}, oneVersion{},
		k.GroupVersionKind, k.GroupVersion(), sub, ignored(k, sub))
	if err != nil {
		return nil, fmt.Errorf("field manager of %s: %w", k.Kind, err)
	}
	m.made[key] = fm
	return fm, nil
}

// ignored returns the fields that an apply through sub does not change, even if it
// contains them.
func ignored(k *kinds.Kind, sub string) map[fieldpath.APIVersion]fieldpath.Filter {
	var path fieldpath.Path
	switch {
	case sub == "" && k.Status:
		path = fieldpath.MakePathOrDie("status")
	case sub == "status":
		path = fieldpath.MakePathOrDie("spec")
	default:
		return nil
	}
	return map[fieldpath.APIVersion]fieldpath.Filter{
		fieldpath.APIVersion(k.GroupVersion().String()): fieldpath.NewExcludeSetFilter(fieldpath.NewSet(path)),
	}
}

// oneVersion converts, defaults and creates unstructured objects where each
// group has a single version: there is nothing to convert.
type oneVersion struct{}

func (oneVersion) Convert(_, _, _ any) error { return nil }

func (oneVersion) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (oneVersion) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func (oneVersion) Default(runtime.Object) {}

func (oneVersion) New(gvk schema.GroupVersionKind) (runtime.Object, error) { return zero(gvk), nil }

// maxManagerName is what API servers take.
const maxManagerName = 128

// ManagerName is what a client that names no manager is called: the printable characters of
// the first part of its user agent.
func ManagerName(named, userAgent string) string {
	if named != "" {
		return named
	}
	userAgent, _, _ = strings.Cut(userAgent, "/")
	name := []rune(userAgent[:min(len(userAgent), maxManagerName*utf8.UTFMax)])
	name = slices.DeleteFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
	for len(string(name)) > maxManagerName {
		name = name[:len(name)-1]
	}
	return cmp.Or(string(name), "unknown")
}
