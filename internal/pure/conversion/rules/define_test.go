// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

var (
	before = schema.GroupVersion{Group: "example.io", Version: "v1"}
	after  = schema.GroupVersion{Group: "example.io", Version: "v2"}
)

// fakeKind is a kind whose older version has the name of its Cluster, and no phase.
func fakeKind(keep func(*clusterv1.Machine) any) Kind {
	return Define(Definition[clusterv1.Machine, clusterv1.Machine]{
		Kind: "Thing", Old: before, Hub: after, Keep: keep,
		Up: func(old, hub, kept *clusterv1.Machine) error {
			if old.Spec.ClusterName == "refused" {
				return errors.New("spec.clusterName: refused")
			}
			hub.Spec.ClusterName, hub.Status.Phase = old.Spec.ClusterName, Value(kept).Status.Phase
			return nil
		},
		Down: func(hub, old *clusterv1.Machine, _ Lookup) error {
			old.Spec.ClusterName = hub.Spec.ClusterName
			return nil
		},
	})
}

func all(hub *clusterv1.Machine) any { return Data(hub.TypeMeta, hub.Spec, hub.Status) }

func thing(annotations map[string]string) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "1", Annotations: annotations}}
	m.Spec.ClusterName, m.Status.Phase = "c", "Running"
	return m
}

func TestWhatDownLosesComesBack(t *testing.T) {
	t.Parallel()
	k := fakeKind(all)
	hub := thing(map[string]string{"note": "1"})
	untouched := hub.DeepCopy()
	got, err := k.Down(hub, nil)
	if err != nil {
		t.Fatal(err)
	}
	old := got.(*clusterv1.Machine)
	want := `{"kind":"Thing","apiVersion":"example.io/v2","spec":{"clusterName":"c"},"status":{"phase":"Running"}}`
	if diff := cmp.Diff(map[string]string{"note": "1", DataAnnotation: want}, old.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if gvk := old.GroupVersionKind(); gvk != k.Old || old.UID != "1" || old.Status.Phase != "" {
		t.Errorf("got %s, UID %s, phase %q", gvk, old.UID, old.Status.Phase)
	}
	back, err := k.Up(old)
	if err != nil {
		t.Fatal(err)
	}
	wantBack := untouched.DeepCopy()
	wantBack.SetGroupVersionKind(k.Hub)
	if diff := cmp.Diff(wantBack, back); diff != "" {
		t.Errorf("back up (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(untouched, hub); diff != "" {
		t.Errorf("the source changed (-was +is):\n%s", diff)
	}
	if old.Annotations[DataAnnotation] == "" {
		t.Error("going up took the annotation from its source")
	}
}

func TestTheAnnotationIsLeftOutWhereItDoesNotFit(t *testing.T) {
	t.Parallel()
	hub := thing(map[string]string{"note": strings.Repeat("x", 256<<10-100), DataAnnotation: "{}"})
	got, err := fakeKind(all).Down(hub, nil)
	if err != nil {
		t.Fatal(err)
	}
	if data, ok := got.(*clusterv1.Machine).Annotations[DataAnnotation]; ok {
		t.Errorf("annotation is %.20s…, want none, nor the one that was there", data)
	}
}

func TestAKindWithoutAnnotationLeavesIt(t *testing.T) {
	t.Parallel()
	k := fakeKind(nil)
	got, err := k.Down(thing(nil), nil)
	if err != nil || got.(*clusterv1.Machine).Annotations != nil {
		t.Errorf("got %v, %v", got, err)
	}
	kept := map[string]string{DataAnnotation: "not JSON"}
	got, err = k.Up(thing(kept))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(kept, got.(*clusterv1.Machine).Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}

func TestErrorsNameTheObject(t *testing.T) {
	t.Parallel()
	refused := thing(nil)
	refused.Spec.ClusterName = "refused"
	tests := map[string]struct {
		old  *clusterv1.Machine
		want string
	}{
		"a field":        {refused, "convert Thing ns/m to example.io/v2: spec.clusterName: refused"},
		"the annotation": {thing(map[string]string{DataAnnotation: "{"}), "convert Thing ns/m to example.io/v2: annotation cluster.x-k8s.io/conversion-data: "},
		"an empty one":   {thing(map[string]string{DataAnnotation: ""}), "convert Thing ns/m to example.io/v2: annotation cluster.x-k8s.io/conversion-data: "},
	}
	for name, tc := range tests {
		if got, err := fakeKind(all).Up(tc.old); got != nil || err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}
