// SPDX-License-Identifier: Apache-2.0

// Package peer_test sends fuzzed objects of every kind from our types to those of the
// published Cluster API module and back, converts them between versions by our functions
// and by theirs, and reads the OpenAPI document of the hooks with an independent
// validator. It is a separate module so that no other package depends on those.
package peer_test

import (
	"encoding/json"
	"hash/fnv"
	"maps"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	theirbootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	theirclusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/randfill"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	ipamv1 "github.com/capstan-dev/capstan/api/ipam/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
)

// objects is how many objects of each kind are sent each way.
const objects = 50

func TestEveryKindSurvivesBothWays(t *testing.T) {
	t.Parallel()
	for kind, p := range pairs {
		t.Run("ours to theirs/"+kind, func(t *testing.T) {
			t.Parallel()
			survives(t, kind, p.ours, p.theirs)
		})
		t.Run("theirs to ours/"+kind, func(t *testing.T) {
			t.Parallel()
			survives(t, kind, p.theirs, p.ours)
		})
	}
}

func TestEveryKindOfOursHasAPeer(t *testing.T) {
	t.Parallel()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		addonsv1.AddToScheme, bootstrapv1.AddToScheme, controlplanev1.AddToScheme, clusterv1.AddToScheme,
		hooksv1.AddToScheme, ipamv1.AddToScheme, runtimev1.AddToScheme,
	} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	var want []string
	for gvk, typ := range s.AllKnownTypes() {
		if strings.HasPrefix(typ.PkgPath(), "github.com/capstan-dev/") && !strings.HasSuffix(gvk.Kind, "List") {
			want = append(want, gvk.Kind)
		}
	}
	slices.Sort(want)
	got := slices.DeleteFunc(slices.Sorted(maps.Keys(pairs)), func(kind string) bool { return kind == "Builtins" })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds that are compared (-all +compared):\n%s", diff)
	}
}

// survives fills values of type from, decodes each strictly as to, and requires the same
// bytes and the same value back.
func survives(t *testing.T, kind string, from, to reflect.Type) {
	t.Helper()
	for i := range objects {
		seed := seedOf(kind, i)
		in := reflect.New(from)
		fill(seed, in.Interface())
		sent := encode(t, in)
		there := reflect.New(to)
		decode(t, seed, sent, there)
		back := encode(t, there)
		if diff := cmp.Diff(string(sent), string(back)); diff != "" {
			t.Fatalf("seed %d: %s encodes as (-%s +%s):\n%s", seed, kind, from, to, diff)
		}
		again := reflect.New(from)
		decode(t, seed, back, again)
		if diff := cmp.Diff(string(sent), string(encode(t, again))); diff != "" {
			t.Fatalf("seed %d: %s comes back as (-sent +came):\n%s", seed, kind, diff)
		}
	}
}

// seedOf is the same for the same kind and number in every run.
func seedOf(kind string, i int) int64 {
	h := fnv.New32a()
	h.Write([]byte(kind))
	return int64(h.Sum32()) + int64(i)
}

func encode(t *testing.T, v reflect.Value) []byte {
	t.Helper()
	data, err := json.MarshalIndent(v.Interface(), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	// The order of fields is defined by the type.
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		t.Fatal(err)
	}
	data, err = json.MarshalIndent(tree, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func decode(t *testing.T, seed int64, data []byte, into reflect.Value) {
	t.Helper()
	strict, err := kjson.UnmarshalStrict(data, into.Interface())
	if err != nil {
		t.Fatalf("seed %d: decode %s: %v\n%s", seed, into.Type(), err, data)
	}
	for _, err := range strict {
		t.Fatalf("seed %d: decode %s: %v", seed, into.Type(), err)
	}
}

// fill fills a value from a seed with random content that JSON can represent.
func fill(seed int64, obj any) {
	depth := 0
	randfill.New().RandSource(rand.NewSource(seed)).NilChance(0.2).NumElements(1, 3).MaxDepth(14).AllowUnexportedFields(false).Funcs(
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(int64(c.Uint32()), 0).Rfc3339Copy() },
		func(t *metav1.MicroTime, c randfill.Continue) {
			*t = metav1.NewMicroTime(metav1.Unix(int64(c.Uint32()), 0).Time)
		},
		func(d *metav1.Duration, c randfill.Continue) { d.Duration = 1e9 * 60 },
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewQuantity(c.Int63n(1000), resource.DecimalSI)
		},
		func(v *intstr.IntOrString, c randfill.Continue) {
			*v = intstr.FromInt32(c.Int31())
			if c.Bool() {
				*v = intstr.FromString(c.String(10))
			}
		},
		// An empty list of taints is not the same as none, a null one is.
		func(taints *[]corev1.Taint, c randfill.Continue) {
			*taints = make([]corev1.Taint, c.Intn(3))
			for i := range *taints {
				c.Fill(&(*taints)[i])
			}
		},
		func(envs *[]theirbootstrapv1.EnvVar, c randfill.Continue) {
			*envs = make([]theirbootstrapv1.EnvVar, 1) // empty lists are not allowed
			c.Fill(&(*envs)[0])
		},
		func(envs *[]bootstrapv1.EnvVar, c randfill.Continue) {
			*envs = make([]bootstrapv1.EnvVar, 1)
			c.Fill(&(*envs)[0])
		},
		func(s *clusterv1.JSONSchemaProps, c randfill.Continue) {
			nested(&depth, func() { c.FillNoCustom(s) })
		},
		func(s *theirclusterv1.JSONSchemaProps, c randfill.Continue) {
			nested(&depth, func() { c.FillNoCustom(s) })
		},
		func(r *runtime.RawExtension, c randfill.Continue) { r.Raw = raw(c) },
		func(j *apiextensionsv1.JSON, c randfill.Continue) { j.Raw = raw(c) },
		func(f *metav1.FieldsV1, _ randfill.Continue) { f.Raw = []byte(`{"f:spec":{}}`) },
		func(s *bootstrapv1.BootstrapTokenString, _ randfill.Continue) {
			s.ID, s.Secret = "abcdef", "0123456789abcdef"
		},
		func(s *theirbootstrapv1.BootstrapTokenString, _ randfill.Continue) {
			s.ID, s.Secret = "abcdef", "0123456789abcdef"
		},
	).Fill(obj)
}

// nested fills a schema within schemas, two levels deep: a schema has six
// fields that hold schemas.
func nested(depth *int, fill func()) {
	if *depth == 2 {
		return
	}
	*depth++
	fill()
	*depth--
}

// raw is some JSON object.
func raw(c randfill.Continue) []byte {
	data, err := json.Marshal(map[string]any{"kind": c.String(8), "n": c.Int31()})
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	return data
}
