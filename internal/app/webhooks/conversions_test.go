// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/kit/conversion"
	"github.com/capstan-dev/capstan/manifests"
)

// TestWhatIsServedIsConverted: an API server requests the conversion of each
// version that a definition has in addition to the stored one.
func TestWhatIsServedIsConverted(t *testing.T) {
	t.Parallel()
	c, err := NewConverter(nil)
	if err != nil {
		t.Fatal(err)
	}
	crds, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds {
		for _, v := range crd.Spec.Versions {
			gvk := schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind}
			if c.Converts(gvk) == v.Storage && len(crd.Spec.Versions) > 1 {
				t.Errorf("%s: is stored: %v, and converted: %v", gvk, v.Storage, c.Converts(gvk))
			}
			if stored := gvk.GroupVersion().String(); v.Storage && len(crd.Spec.Versions) > 1 && c.Stored(gvk.GroupKind()) != stored {
				t.Errorf("%s is converted to %s, and stored as %s", gvk.GroupKind(), c.Stored(gvk.GroupKind()), stored)
			}
		}
	}
}

// stored returns objects of all kinds that are converted, with every field set, by
// old version.
func stored(t testing.TB) map[schema.GroupVersionKind]map[string]any {
	t.Helper()
	crds, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	all := map[schema.GroupVersionKind]map[string]any{}
	for _, crd := range crds {
		hub := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage })
		for i, v := range crd.Spec.Versions {
			if i == hub {
				continue
			}
			data, err := os.ReadFile(fmt.Sprintf("../../../api/testdata/golden/%s_%s_%s.yaml", crd.Spec.Group, crd.Spec.Versions[hub].Name, crd.Spec.Names.Singular))
			if err != nil {
				t.Fatal(err)
			}
			if data, err = yaml.YAMLToJSON(data); err != nil {
				t.Fatal(err)
			}
			var obj map[string]any
			if err := utiljson.Unmarshal(data, &obj); err != nil {
				t.Fatal(err)
			}
			unstructured.RemoveNestedField(obj, "metadata", "managedFields") // an API server takes no metadata of a review
			all[schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind}] = obj
		}
	}
	return all
}

func converter(t testing.TB) *conversion.Converter {
	t.Helper()
	c, err := NewConverter(func(kind schema.GroupKind) (string, error) { return kind.Group + "/v7", nil })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestReviewsAndTheStoreAgree: what an API server reads from its store and what a
// review returns must be the same object.
func TestReviewsAndTheStoreAgree(t *testing.T) {
	t.Parallel()
	c := converter(t)
	for gvk, obj := range stored(t) {
		for _, to := range []string{gvk.GroupVersion().String(), c.Stored(gvk.GroupKind())} { // down, and up again
			raw, err := json.Marshal(obj)
			if err != nil {
				t.Fatal(err)
			}
			if raw, err = c.JSON(raw, to); err != nil {
				t.Fatalf("%s: %v", gvk, err)
			}
			if obj, err = c.Object(obj, to); err != nil {
				t.Fatalf("%s: %v", gvk, err)
			}
			reviewed := map[string]any{}
			if err := utiljson.Unmarshal(raw, &reviewed); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(reviewed, obj); diff != "" {
				t.Errorf("%s to %s (-review +store):\n%s", gvk.Kind, to, diff)
			}
		}
	}
}

// BenchmarkMachine measures one conversion of a Machine with every field set.
func BenchmarkMachine(b *testing.B) {
	gvk := schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta1", Kind: "Machine"}
	c, obj := converter(b), stored(b)[gvk]
	raw, err := json.Marshal(obj)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("review", func(b *testing.B) {
		for b.Loop() {
			if _, err := c.JSON(raw, "cluster.x-k8s.io/v1beta1"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("store", func(b *testing.B) {
		for b.Loop() {
			if _, err := c.Object(obj, "cluster.x-k8s.io/v1beta1"); err != nil {
				b.Fatal(err)
			}
		}
	})
}
