// SPDX-License-Identifier: Apache-2.0

package kubeadm_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// maxDepth ends what contains itself, and maxSchemas schemas in schemas, of which
// each may have nine.
const (
	maxDepth   = 14
	maxSchemas = 2
)

// filler sets the fields of an object. Without random all are set, to distinct
// values, with one element in each list.
type filler struct {
	random *rand.Rand
	count  int
	within int // schemas
}

// chosen is true for about one in n, and without random never.
func (f *filler) chosen(n int) bool { return f.random != nil && f.random.IntN(n) == 0 }

func (f *filler) fill(v reflect.Value, depth int) {
	f.count++
	if depth > maxDepth || f.special(v) {
		return
	}
	if v.Type() == reflect.TypeFor[clusterv1.JSONSchemaProps]() {
		if f.within == maxSchemas {
			return
		}
		f.within++
		defer func() { f.within-- }()
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; name != "TypeMeta" && name != "ObjectMeta" || v.Field(i).Type().PkgPath() != reflect.TypeFor[metav1.TypeMeta]().PkgPath() {
				f.fill(v.Field(i), depth+1)
			}
		}
	case reflect.Pointer:
		if !f.chosen(3) {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem(), depth+1)
		}
	case reflect.Slice:
		n := 1
		if f.random != nil {
			n = f.random.IntN(5) - 1 // -1: none at all
		}
		if n >= 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				f.fill(v.Index(i), depth+1)
			}
		}
	case reflect.Map:
		if f.chosen(3) {
			return
		}
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(key, depth+1)
		f.fill(value, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	default:
		f.scalar(v)
	}
}

func (f *filler) scalar(v reflect.Value) {
	if f.chosen(3) {
		return // zero
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("s%d", f.count))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(f.count))
	case reflect.Uint8:
		v.SetUint(uint64(f.count % 256))
	case reflect.Float64:
		v.SetFloat(float64(f.count))
	default:
		panic(fmt.Sprintf("%s cannot be filled", v.Type()))
	}
}

// special fills types with their own wire format.
func (f *filler) special(v reflect.Value) bool {
	switch p := v.Addr().Interface().(type) {
	case *metav1.Time:
		if !f.chosen(3) {
			*p = metav1.NewTime(time.Unix(int64(1700000000+f.count), 0).UTC())
		}
	case *intstr.IntOrString:
		*p = intstr.FromInt32(int32(f.count % 5))
		if f.chosen(2) {
			*p = intstr.FromString("20%")
		}
	case *resource.Quantity:
		*p = resource.MustParse("1")
	case *apiextensionsv1.JSON:
		p.Raw = []byte(fmt.Sprintf(`{"a":%d}`, f.count))
	case *runtime.RawExtension:
		p.Raw = []byte(fmt.Sprintf(`{"a":%d}`, f.count))
	case *bootstrapv1.BootstrapTokenString:
		*p = bootstrapv1.BootstrapTokenString{ID: fmt.Sprintf("%06d", f.count), Secret: fmt.Sprintf("%016d", f.count)}
	default:
		return false
	}
	return true
}
