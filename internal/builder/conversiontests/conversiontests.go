// SPDX-License-Identifier: Apache-2.0

// Package conversiontests is what the tests of all conversions share: properties that
// each of them has, for all objects, and golden pairs.
//
// A Maker generates objects of any API type as clients may send them: every field
// present, absent, empty, zero or null, lists with duplicates, durations with
// fractions, references that cannot be parsed. It generates JSON rather than values,
// as encoding a value loses the difference between nothing and empty.
package conversiontests

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/pure/conversion/rules"
)

// rounds is how many objects of each kind a property is tried on. The peer test
// tries many more; here a fault must show in a second.
const rounds = 50

// Lookup finds one version for each group.
func Lookup(gk schema.GroupKind) (string, error) {
	return schema.GroupVersion{Group: gk.Group, Version: "v1beta2"}.String(), nil
}

// HubComesBack checks the purpose of the annotation: an old client that reads an
// object and writes it back changes nothing of what it cannot see. settle changes
// an object to one that a hub may hold and that avoids what is lost on purpose.
func HubComesBack(t *testing.T, kinds []rules.Kind, settle func(kind string, hub map[string]any)) {
	for _, k := range kinds {
		t.Run(k.Hub.Kind+" "+k.Old.Version, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(rounds) {
				tree := NewMaker(seed).Object(reflect.TypeOf(k.NewHub()).Elem(), k.Hub)
				distinct(tree)
				settle(k.Hub.Kind, tree)
				hub := decoded(t, tree, k.NewHub())
				before := hub.DeepCopyObject()
				old, err := k.Down(hub, Lookup)
				if err != nil {
					t.Fatalf("seed %d: down: %v", seed, err)
				}
				if diff := cmp.Diff(before, hub); diff != "" {
					t.Fatalf("seed %d: down changed its source (-was +is):\n%s", seed, diff)
				}
				back, err := k.Up(old)
				if err != nil {
					t.Fatalf("seed %d: up: %v", seed, err)
				}
				if diff := cmp.Diff(plain(t, hub), plain(t, back)); diff != "" {
					t.Fatalf("seed %d (-hub +came back):\n%s", seed, diff)
				}
			}
		})
	}
}

// OldSourceStays also checks for a panic with anything that clients may send, and
// for annotations in unexpected places.
func OldSourceStays(t *testing.T, kinds []rules.Kind) {
	for _, k := range kinds {
		t.Run(k.Hub.Kind+" "+k.Old.Version, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(rounds) {
				old := decoded(t, NewMaker(seed).Object(reflect.TypeOf(k.NewOld()).Elem(), k.Old), k.NewOld())
				other := decoded(t, NewMaker(seed+rounds).Object(reflect.TypeOf(k.NewHub()).Elem(), k.Hub), k.NewHub())
				if shown, err := k.Down(other, Lookup); err == nil && seed%2 == 0 {
					// The annotation of a different object, as a user may copy it.
					old.(metav1.Object).SetAnnotations(shown.(metav1.Object).GetAnnotations())
				}
				before := old.DeepCopyObject()
				hub, err := k.Up(old)
				if diff := cmp.Diff(before, old); diff != "" {
					t.Fatalf("seed %d: up changed its source (-was +is):\n%s", seed, diff)
				}
				if err != nil {
					if !strings.Contains(err.Error(), "unexpected GroupVersion string") {
						t.Fatalf("seed %d: %v", seed, err)
					}
					continue
				}
				if _, err := k.Down(hub, Lookup); err != nil {
					t.Fatalf("seed %d: down: %v", seed, err)
				}
			}
		})
	}
}

// BareObjects converts objects that have only their kind: field management prunes
// them to what a manager owns, at times to nothing. The answer must have metadata,
// or a server-side apply fails.
func BareObjects(t *testing.T, kinds []rules.Kind) {
	for _, k := range kinds {
		t.Run(k.Hub.Kind+" "+k.Old.Version, func(t *testing.T) {
			t.Parallel()
			hub, err := k.Up(k.NewOld())
			if err != nil {
				t.Fatalf("up: %v", err)
			}
			old, err := k.Down(k.NewHub(), Lookup)
			if err != nil {
				t.Fatalf("down: %v", err)
			}
			for _, obj := range []runtime.Object{hub, old} {
				if _, ok := plain(t, obj)["metadata"].(map[string]any); !ok {
					t.Errorf("%s has no metadata", obj.GetObjectKind().GroupVersionKind())
				}
			}
		})
	}
}

// Golden keeps for each kind the form of a hub with every field set at the older
// version, in testdata, and checks that it converts back from there. A change of
// such a file is a change of the wire format. UPDATE_GOLDEN=1 writes them. hubs is
// the folder of the golden objects of the hub.
func Golden(t *testing.T, kinds []rules.Kind, hubs string) {
	for _, k := range kinds {
		t.Run(k.Hub.Kind+" "+k.Old.Version, func(t *testing.T) {
			t.Parallel()
			name := fmt.Sprintf("%s_%s_%s.yaml", k.Hub.Group, k.Hub.Version, strings.ToLower(k.Hub.Kind))
			hub := read(t, filepath.Join(hubs, name), k.NewHub())
			old, err := k.Down(hub, Lookup)
			if err != nil {
				t.Fatal(err)
			}
			encoded, err := yaml.Marshal(old)
			if err != nil {
				t.Fatal(err)
			}
			name = fmt.Sprintf("%s_%s_%s.yaml", k.Old.Group, k.Old.Version, strings.ToLower(k.Old.Kind))
			builder.Golden(t, name, encoded)
			back, err := k.Up(read(t, filepath.Join("testdata", name), k.NewOld()))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(hub, back); diff != "" {
				t.Errorf("back up (-want +got):\n%s", diff)
			}
		})
	}
}

// Case is one conversion: From becomes Want, in YAML. The annotation has the hub Kept
// unless that is empty.
type Case struct{ From, Kept, Want string }

// Up converts each case from the older version.
func Up(t *testing.T, k rules.Kind, tests map[string]Case) {
	convert(t, tests, k.NewOld, k.NewHub, k.Up)
}

// Down converts each case from the hub.
func Down(t *testing.T, k rules.Kind, tests map[string]Case) {
	convert(t, tests, k.NewHub, k.NewOld, func(hub runtime.Object) (runtime.Object, error) { return k.Down(hub, Lookup) })
}

// Both converts each case up, and its result down.
func Both(t *testing.T, k rules.Kind, tests map[string]Case) {
	down := map[string]Case{}
	for name, tc := range tests {
		down[name] = Case{From: tc.Want, Want: tc.From}
	}
	t.Run("up", func(t *testing.T) { Up(t, k, tests) })
	t.Run("down", func(t *testing.T) { Down(t, k, down) })
}

func convert(t *testing.T, tests map[string]Case, newFrom, newTo func() runtime.Object, do func(runtime.Object) (runtime.Object, error)) {
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, want := parsed(t, tc.From, newFrom()), parsed(t, tc.Want, newTo())
			meta := from.(metav1.Object)
			meta.SetNamespace("ns")
			if tc.Kept != "" {
				kept, err := yaml.YAMLToJSON([]byte(tc.Kept))
				if err != nil {
					t.Fatal(err)
				}
				meta.SetAnnotations(map[string]string{rules.DataAnnotation: string(kept)})
			}
			got, err := do(from)
			if err != nil {
				t.Fatal(err)
			}
			for _, obj := range []runtime.Object{want, got} { // the tests of package rules are about these
				*obj.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta) = metav1.ObjectMeta{}
				obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func parsed(t *testing.T, text string, into runtime.Object) runtime.Object {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatal(err)
	}
	return into
}

func read(t *testing.T, file string, into runtime.Object) runtime.Object {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return parsed(t, string(data), into)
}

func decoded(t *testing.T, tree map[string]any, into runtime.Object) runtime.Object {
	t.Helper()
	data, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
	return into
}

func plain(t *testing.T, obj runtime.Object) (tree map[string]any) {
	t.Helper()
	data, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

// distinct takes out what a hub never holds: empty lists and objects, and two
// elements of a list by one name. It reports whether anything is left.
func distinct(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for name, child := range v {
			if !distinct(child) {
				delete(v, name)
			}
		}
		return len(v) > 0
	case []any:
		for i, child := range v {
			if element, ok := child.(map[string]any); ok {
				distinct(element)
				element["name"], element["from"] = fmt.Sprint("n", i), fmt.Sprint("f", i)
			}
		}
		return len(v) > 0
	case string:
		return v != ""
	default:
		return v != nil
	}
}
