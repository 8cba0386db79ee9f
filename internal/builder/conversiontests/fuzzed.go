// SPDX-License-Identifier: Apache-2.0

package conversiontests

import (
	"math/rand/v2"
	"reflect"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
)

// depth is how often a type may lie within itself: a schema in a schema. There
// are seven ways into the next one, so with another level an object takes
// longer than all that is done with it.
const depth = 2

// Maker generates objects from a seed, the same ones each time.
type Maker struct {
	random *rand.Rand
	path   []string
	hit    map[string]bool
	inside map[reflect.Type]int
}

// NewMaker returns a Maker for a seed.
func NewMaker(seed uint64) *Maker {
	return &Maker{random: rand.New(rand.NewPCG(seed, seed)), hit: map[string]bool{}, inside: map[reflect.Type]int{}}
}

// Hit returns the fields that were set so far, by paths such as
// spec.bootstrap.configRef.
func (m *Maker) Hit() map[string]bool { return m.hit }

// Object generates an object of a type, with the fields that every object has.
func (m *Maker) Object(typ reflect.Type, gvk schema.GroupVersionKind) map[string]any {
	obj, _ := m.structure(typ).(map[string]any)
	obj["apiVersion"], obj["kind"] = gvk.GroupVersion().String(), gvk.Kind
	metadata := map[string]any{"name": "x", "namespace": "ns", "uid": "1", "generation": 3, "resourceVersion": "7"}
	if m.one(2) {
		metadata["labels"] = map[string]any{"l": "1"}
	}
	if m.one(2) {
		metadata["annotations"] = map[string]any{"a": "1"}
	}
	obj["metadata"] = metadata
	return obj
}

// one is true once in n times.
func (m *Maker) one(n int) bool { return m.random.IntN(n) == 0 }

func pick[T any](m *Maker, from ...T) T { return from[m.random.IntN(len(from))] }

// named are the values of fields that must be more than any text.
var named = map[string][]string{
	"apiVersion": {"", "v1", "infra.io/v1beta1", "infra.io/v1beta1", "bootstrap.io/v1beta2", "bootstrap.io/v1beta2"},
	"phase":      {"", "Pending", "Running", "Updating"},
	"token":      {"", "abcdef.0123456789abcdef", "abcdef.0123456789abcdef", "000000.0000000000000000"},
}

// unparsable is an apiVersion that refuses the whole object, so it is rare.
const unparsable = "a/b/c"

func (m *Maker) value(typ reflect.Type, name string) any {
	switch typ {
	case reflect.TypeFor[metav1.Time]():
		return pick(m, "2026-01-02T03:04:05Z", "2025-01-02T03:04:05Z")
	case reflect.TypeFor[metav1.Duration]():
		return pick(m, "0s", "10m0s", "1.999s", "-3s", "-0.5s", "1000000h0m0s", "-1000000h0m0s")
	case reflect.TypeFor[intstr.IntOrString]():
		return pick[any](m, 0, 1, "10%", "")
	case reflect.TypeFor[resource.Quantity]():
		return pick(m, "1", "100m", "0")
	case reflect.TypeFor[bootstrapv1.BootstrapTokenString]():
		return pick(m, "abcdef.0123456789abcdef", "000000.0000000000000000")
	case reflect.TypeFor[apiextensionsv1.JSON]():
		return pick[any](m, 0, "x", map[string]any{"a": []any{1}}, []any{}, map[string]any{})
	case reflect.TypeFor[runtime.RawExtension]():
		return pick[any](m, map[string]any{"kind": "x"}, map[string]any{"a": []any{1}})
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return m.value(typ.Elem(), name)
	case reflect.Struct:
		return m.structure(typ)
	case reflect.Slice:
		if typ.Elem().Kind() == reflect.Uint8 {
			return "c29tZQ==" // base64
		}
		list := []any{}
		for range m.random.IntN(4) {
			list = append(list, m.value(typ.Elem(), name))
		}
		return list
	case reflect.Map:
		all := map[string]any{}
		for range m.random.IntN(4) {
			all[pick(m, "a", "b", "c", "d")] = m.value(typ.Elem(), name)
		}
		return all
	case reflect.Bool:
		return m.one(2)
	case reflect.String:
		if name == "apiVersion" && m.one(200) {
			return unparsable
		}
		if values := named[name]; values != nil {
			return pick(m, values...)
		}
		return pick(m, "", "a", "a", "b", "b", "c", "<&>")
	case reflect.Float32, reflect.Float64:
		return pick(m, 0, 1.5)
	default:
		return pick(m, 0, 0, 1, 2, 600, -1, 1<<31-1)
	}
}

func (m *Maker) structure(typ reflect.Type) any {
	m.inside[typ]++
	defer func() { m.inside[typ]-- }()
	obj := map[string]any{}
	m.fields(typ, obj)
	return obj
}

// fields sets the fields of a struct, those of structs that it embeds included.
func (m *Maker) fields(typ reflect.Type, obj map[string]any) {
	for f := range typ.Fields() {
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case len(m.path) == 0 && (f.Type == reflect.TypeFor[metav1.TypeMeta]() || f.Type == reflect.TypeFor[metav1.ObjectMeta]()) || tag == "-":
			continue
		case f.Anonymous && tag == "" && strings.Contains(options, "inline"):
			m.fields(f.Type, obj)
			continue
		}
		m.field(f.Type, tag, obj)
	}
}

func (m *Maker) field(typ reflect.Type, name string, obj map[string]any) {
	within := typ
	for within.Kind() == reflect.Pointer || within.Kind() == reflect.Slice || within.Kind() == reflect.Map {
		within = within.Elem()
	}
	absent := 3
	if name == "spec" || name == "status" {
		absent = 20 // without these there is nothing to check
	}
	if m.inside[within] >= depth || m.one(absent) {
		return
	}
	if m.one(30) && (typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map) {
		obj[name] = nil
		return
	}
	m.path = append(m.path, name)
	m.hit[strings.Join(m.path, ".")] = true
	obj[name] = m.value(typ, name)
	m.path = m.path[:len(m.path)-1]
}
