// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
)

func TestEveryKindHasATypeAndIsDiscovered(t *testing.T) {
	t.Parallel()
	for _, k := range kinds.Everywhere().All() {
		obj, err := k.New()
		if err != nil {
			t.Errorf("%s: %v", k.GroupVersionKind, err)
			continue
		}
		if kinds.ByType(obj) != k || kinds.Everywhere().ByKind(k.GroupVersionKind) != k || kinds.Everywhere().ByResource(k.GVR()) != k || kinds.Everywhere().ByGroupResource(k.Stored()).GroupVersionKind != k.StoredAs {
			t.Errorf("%s is not found again", k.GroupVersionKind)
		}
		list := kinds.Everywhere().Resources(k.GroupVersion())
		var names []string
		for _, r := range list.APIResources {
			names = append(names, r.Name)
		}
		if !slices.Contains(names, k.Resource) || k.Status != slices.Contains(names, k.Resource+"/status") || k.Scale != slices.Contains(names, k.Resource+"/scale") {
			t.Errorf("%s is discovered as %v", k.GroupVersionKind, names)
		}
	}
	if kinds.Everywhere().ByResource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}) != nil {
		t.Error("a resource that is not served was found")
	}
}

func TestEvictionIsDiscoveredAsKubectlExpectsIt(t *testing.T) {
	t.Parallel()
	for _, r := range kinds.Everywhere().Resources(schema.GroupVersion{Version: "v1"}).APIResources {
		if r.Name == "pods/eviction" {
			if r.Group != "policy" || r.Version != "v1" || r.Kind != "Eviction" {
				t.Errorf("pods/eviction is %s/%s %s", r.Group, r.Version, r.Kind)
			}
			return
		}
	}
	t.Error("pods/eviction is not there")
}
