// SPDX-License-Identifier: Apache-2.0

package differ

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/pure/ssadiff"
)

// The largest kind of a topology: what its schema costs once, an intent each
// time it changes, and a comparison for each event of the object.

func controlPlanes(b *testing.B) (schema.GroupVersionKind, []byte) {
	b.Helper()
	crds, err := CRDs()
	if err != nil {
		b.Fatal(err)
	}
	for _, crd := range crds {
		if crd.Spec.Names.Kind == "KubeadmControlPlane" {
			v := crd.Spec.Versions[len(crd.Spec.Versions)-1]
			text, err := json.Marshal(v.Schema.OpenAPIV3Schema)
			if err != nil {
				b.Fatal(err)
			}
			return schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: "KubeadmControlPlane"}, text
		}
	}
	b.Fatal("there is no KubeadmControlPlane")
	return schema.GroupVersionKind{}, nil
}

func controlPlane(b *testing.B) (*ssadiff.Type, map[string]any) {
	b.Helper()
	gvk, text := controlPlanes(b)
	of, err := ssadiff.NewType(gvk, text)
	if err != nil {
		b.Fatal(err)
	}
	wanted := Wanted("KubeadmControlPlane")
	wanted["apiVersion"], wanted["kind"] = gvk.GroupVersion().String(), gvk.Kind
	wanted["metadata"].(map[string]any)["name"] = "cp"
	return of, wanted
}

func BenchmarkType(b *testing.B) {
	gvk, text := controlPlanes(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ssadiff.NewType(gvk, text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkIntend(b *testing.B) {
	of, wanted := controlPlane(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := of.Intend("us", wanted); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAgainstUnchanged(b *testing.B) {
	of, wanted := controlPlane(b)
	in, err := of.Intend("us", runtime.DeepCopyJSON(wanted))
	if err != nil {
		b.Fatal(err)
	}
	wanted["metadata"].(map[string]any)["managedFields"] = in.Seed(wanted)
	if v := in.Against(wanted, nil); v.Changed() {
		b.Fatalf("changed: %v", v)
	}
	b.ReportAllocs()
	for b.Loop() {
		in.Against(wanted, nil)
	}
}
