// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	ipamv1 "github.com/capstan-dev/capstan/api/ipam/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
)

// kinds are all kinds of all groups, without lists and without what apimachinery
// adds to each group.
func kinds(t *testing.T) map[schema.GroupVersionKind]reflect.Type {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		addonsv1.AddToScheme, bootstrapv1.AddToScheme, certmanagerv1.AddToScheme, clusterctlv1.AddToScheme, controlplanev1.AddToScheme,
		clusterv1.AddToScheme, hooksv1.AddToScheme, infrav1.AddToScheme, ipamv1.AddToScheme, runtimev1.AddToScheme,
	} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	all := map[schema.GroupVersionKind]reflect.Type{}
	for gvk, typ := range s.AllKnownTypes() {
		if strings.HasPrefix(typ.PkgPath(), "github.com/capstan-dev/") && !strings.HasSuffix(gvk.Kind, "List") {
			all[gvk] = typ
		}
	}
	return all
}

// TestGoldenRoundTrip keeps one object of each kind, with every field set, in
// testdata/golden, and demands that it survives decoding and encoding. A
// change of a golden file is a change of the wire. UPDATE_GOLDEN=1 writes them.
func TestGoldenRoundTrip(t *testing.T) {
	t.Parallel()
	files := map[string]bool{}
	for gvk, typ := range kinds(t) {
		file := filepath.Join("testdata", "golden", fmt.Sprintf("%s_%s_%s.yaml", gvk.Group, gvk.Version, strings.ToLower(gvk.Kind)))
		files[file] = true
		t.Run(gvk.Kind, func(t *testing.T) {
			t.Parallel()
			full := reflect.New(typ)
			filler{}.fill(full.Elem(), "")
			full.Interface().(runtime.Object).GetObjectKind().SetGroupVersionKind(gvk)
			encoded, err := yaml.Marshal(full.Interface())
			if err != nil {
				t.Fatal(err)
			}
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(file, encoded, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			golden, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(golden), string(encoded)); diff != "" {
				t.Errorf("encoding a full object (-golden +got):\n%s", diff)
			}
			decoded := reflect.New(typ)
			if err := yaml.UnmarshalStrict(golden, decoded.Interface()); err != nil {
				t.Fatalf("decoding the golden object: %v", err)
			}
			if diff := cmp.Diff(full.Interface(), decoded.Interface()); diff != "" {
				t.Errorf("decoding the golden object (-want +got):\n%s", diff)
			}
			copied := decoded.Interface().(runtime.Object).DeepCopyObject()
			if diff := cmp.Diff(full.Interface(), copied); diff != "" {
				t.Errorf("deep copy (-want +got):\n%s", diff)
			}
		})
	}
	present, err := filepath.Glob("testdata/golden/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range present {
		if !files[file] {
			t.Errorf("%s belongs to no kind", file)
		}
	}
}

// TestZeroObjectsEncodeNothingOptional keeps optional structs from appearing
// empty: an API server would reject some of them.
func TestZeroObjectsEncodeNothingOptional(t *testing.T) {
	t.Parallel()
	for gvk, typ := range kinds(t) {
		if gvk.Group == hooksv1.GroupVersion().Group || gvk.Group == clusterctlv1.GroupVersion().Group {
			continue // their required fields appear also when empty
		}
		got, err := yaml.Marshal(reflect.New(typ).Interface())
		if err != nil {
			t.Fatal(err)
		}
		if strings.TrimPrefix(string(got), "metadata: ") != "{}\n" {
			t.Errorf("%s: an empty object is encoded as\n%s", gvk.Kind, got)
		}
	}
}

// TestEmptyStructsAreLeftOut checks every struct in a struct: with omitempty
// alone, an empty one is printed as {}.
func TestEmptyStructsAreLeftOut(t *testing.T) {
	t.Parallel()
	seen := map[reflect.Type]bool{}
	var look func(typ reflect.Type)
	look = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			look(typ.Elem())
			return
		case reflect.Struct:
		default:
			return
		}
		if seen[typ] || !strings.HasPrefix(typ.PkgPath(), "github.com/capstan-dev/") {
			return
		}
		seen[typ] = true
		for f := range typ.Fields() {
			tag := f.Tag.Get("json")
			if f.Type.Kind() == reflect.Struct && strings.Contains(tag, "omitempty") && !strings.Contains(tag, "omitzero") &&
				f.Type != reflect.TypeFor[metav1.ObjectMeta]() && f.Type != reflect.TypeFor[metav1.ListMeta]() {
				t.Errorf("%s.%s is printed when empty: add omitzero", typ, f.Name)
			}
			look(f.Type)
		}
	}
	for _, typ := range kinds(t) {
		look(typ)
	}
}

// TestConditionsAreReachable checks that every kind with conditions has
// accessors for them.
func TestConditionsAreReachable(t *testing.T) {
	t.Parallel()
	for gvk, typ := range kinds(t) {
		status, ok := typ.FieldByName("Status")
		if !ok || status.Type.Kind() != reflect.Struct {
			continue
		}
		field, ok := status.Type.FieldByName("Conditions")
		if !ok {
			continue
		}
		if field.Type != reflect.TypeFor[[]metav1.Condition]() {
			t.Errorf("%s: conditions are %s", gvk.Kind, field.Type)
			continue
		}
		obj, ok := reflect.New(typ).Interface().(interface {
			GetConditions() []metav1.Condition
			SetConditions([]metav1.Condition)
		})
		if !ok {
			t.Errorf("%s has no GetConditions and SetConditions", gvk.Kind)
			continue
		}
		obj.SetConditions([]metav1.Condition{{Type: "Ready"}})
		if got := obj.GetConditions(); len(got) != 1 || got[0].Type != "Ready" {
			t.Errorf("%s: GetConditions returns %v", gvk.Kind, got)
		}
	}
}

// filler sets every field of a value; the types it is inside of are where a
// recursive type ends.
type filler struct{ inside []reflect.Type }

var someTime = metav1.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func (f filler) fill(v reflect.Value, name string) {
	if special(v, name) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), name)
	case reflect.Struct:
		if slices.Contains(f.inside, v.Type()) {
			return
		}
		inner := filler{inside: append(slices.Clone(f.inside), v.Type())}
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() && field.Type != reflect.TypeFor[metav1.TypeMeta]() {
				inner.fill(v.Field(i), field.Name)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte("some " + name))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		f.fill(v.Index(0), name)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(key, name+"Key")
		f.fill(value, name)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("some" + name)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(len(name)))
	case reflect.Float64:
		v.SetFloat(1.5)
	default:
		panic(fmt.Sprintf("no way to fill %s, a %s", name, v.Type()))
	}
}

// special fills values that have their own encoding.
func special(v reflect.Value, name string) bool {
	switch p := v.Addr().Interface().(type) {
	case *metav1.Time:
		*p = someTime
	case *intstr.IntOrString:
		*p = intstr.FromString("10%")
	case *resource.Quantity:
		*p = resource.MustParse("1Gi")
		_ = p.String() // as decoding does
	case *runtime.RawExtension:
		p.Raw = []byte(`{"kind":"Some` + name + `"}`)
	case *apiextensionsv1.JSON:
		p.Raw = []byte(`{"some":"` + name + `"}`)
	case *bootstrapv1.BootstrapTokenString:
		*p = bootstrapv1.BootstrapTokenString{ID: "abcdef", Secret: "0123456789abcdef"}
	case *metav1.FieldsV1:
		p.Raw = []byte(`{"f:spec":{}}`)
	case *corev1.ResourceList:
		*p = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
	default:
		return false
	}
	return true
}
