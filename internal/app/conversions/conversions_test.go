// SPDX-License-Identifier: Apache-2.0

package conversions

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/manifests"
)

// TestWhatIsServedIsConverted: an API server asks for the conversion of each
// version that a definition has beside the stored one.
func TestWhatIsServedIsConverted(t *testing.T) {
	t.Parallel()
	c, err := New(nil)
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
