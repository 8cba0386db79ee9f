// SPDX-License-Identifier: Apache-2.0

package kubeadm_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/pure/conversion/kubeadm"
	"github.com/capstan-dev/capstan/internal/pure/conversion/rules"
)

// rounds are tried with each kind.
const rounds = 60

func lookup(kind schema.GroupKind) (string, error) { return kind.Group + "/v7", nil }

// hub builds an object of the stored version.
func hub(k rules.Kind, f filler) runtime.Object {
	obj := k.NewHub()
	f.fill(reflect.ValueOf(obj).Elem(), 0)
	obj.GetObjectKind().SetGroupVersionKind(k.Hub)
	if t, ok := obj.(*controlplanev1.KubeadmControlPlaneTemplate); ok {
		t.Spec.Template.Spec.Rollout.Strategy.Type = controlplanev1.RollingUpdateStrategyType // which has to be there
	}
	m := obj.(metav1.Object)
	m.SetNamespace("ns")
	m.SetName("a")
	m.SetLabels(map[string]string{"label": "x"})
	return obj
}

func encoded(t *testing.T, obj any) map[string]any {
	t.Helper()
	data, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// read returns an object as a client decodes it from JSON: fields that are not in the
// JSON are lost.
func read(t *testing.T, obj, into runtime.Object) runtime.Object {
	t.Helper()
	data, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
	return into
}

// TestWriteOfReadObjectChangesNothing: after the first time, at which fields that
// an old version does not have may be lost, both versions stay unchanged. So a manifest
// that is applied twice causes no new generation.
func TestWriteOfReadObjectChangesNothing(t *testing.T) {
	t.Parallel()
	for _, k := range kubeadm.Kinds() {
		t.Run(k.Old.Kind, func(t *testing.T) {
			t.Parallel()
			down := func(hub runtime.Object) runtime.Object {
				old, err := k.Down(hub, lookup)
				if err != nil {
					t.Fatal(err)
				}
				return read(t, old, k.NewOld())
			}
			up := func(old runtime.Object) runtime.Object {
				hub, err := k.Up(old)
				if err != nil {
					t.Fatal(err)
				}
				return read(t, hub, k.NewHub())
			}
			for seed := range uint64(rounds) {
				first := down(read(t, hub(k, filler{random: rand.New(rand.NewPCG(seed, 1))}), k.NewHub()))
				stored := up(first)
				if m := stored.(metav1.Object); m.GetAnnotations()[rules.DataAnnotation] != "" {
					t.Fatalf("seed %d: the annotation would be stored", seed)
				}
				second := down(stored)
				for _, obj := range []runtime.Object{first, second} {
					m := obj.(metav1.Object)
					delete(m.GetAnnotations(), rules.DataAnnotation)
					if len(m.GetAnnotations()) == 0 {
						m.SetAnnotations(nil)
					}
				}
				if diff := cmp.Diff(encoded(t, first), encoded(t, second)); diff != "" {
					t.Fatalf("seed %d: who reads at the old version again (-first +second):\n%s", seed, diff)
				}
				again := up(down(stored))
				if diff := cmp.Diff(encoded(t, stored), encoded(t, again)); diff != "" {
					t.Fatalf("seed %d: what is stored again (-first +second):\n%s", seed, diff)
				}
			}
		})
	}
}

// TestGoldenPairs keeps one object of each kind, with every field set, at both
// versions. A change of a golden file is a change of the wire. UPDATE_GOLDEN=1
// writes them.
func TestGoldenPairs(t *testing.T) {
	t.Parallel()
	for _, k := range kubeadm.Kinds() {
		t.Run(k.Old.Kind, func(t *testing.T) {
			t.Parallel()
			stored := hub(k, filler{})
			old, err := k.Down(stored, lookup)
			if err != nil {
				t.Fatal(err)
			}
			back, err := k.Up(old)
			if err != nil {
				t.Fatal(err)
			}
			m := old.(metav1.Object)
			m.SetAnnotations(nil) // it holds the stored object, which is below
			var texts []string
			for _, obj := range []runtime.Object{old, stored, back} {
				data, err := yaml.Marshal(obj)
				if err != nil {
					t.Fatal(err)
				}
				texts = append(texts, string(data))
			}
			got := fmt.Sprintf("# old\n%s---\n# stored\n%s---\n# stored after a write of the old version\n%s", texts[0], texts[1], texts[2])
			builder.Golden(t, fmt.Sprintf("%s_%s_%s.yaml", k.Old.Group, k.Old.Version, strings.ToLower(k.Old.Kind)), got)
		})
	}
}
