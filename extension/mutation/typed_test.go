// SPDX-License-Identifier: Apache-2.0

package mutation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/extension/mutation"
)

// disk has fewer fields than the object on the wire.
type disk struct {
	Name string `json:"name,omitempty"`
	Size int    `json:"size"`
}

type machine struct {
	Spec struct {
		Disks   []disk            `json:"disks,omitempty"`
		Labels  map[string]string `json:"labels,omitempty"`
		Network struct {
			MTU  int    `json:"mtu"`
			Name string `json:"name"`
		} `json:"network"`
	} `json:"spec"`
}

func TestEditKeepsWhatTheGoTypeDoesNotKnow(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		before string
		change func(*machine)
		want   string
	}{
		"next to a changed field":         {`{"spec":{"network":{"mtu":1,"x":1}},"x":1}`, func(m *machine) { m.Spec.Network.MTU = 2 }, `{"spec":{"network":{"mtu":2,"x":1}},"x":1}`},
		"of what was left out":            {`{"spec":{}}`, func(m *machine) { m.Spec.Network.MTU = 2 }, `{"spec":{"network":{"mtu":2}}}`},
		"in a changed element":            {`{"spec":{"disks":[{"name":"a","size":1,"x":1}]}}`, func(m *machine) { m.Spec.Disks[0].Size = 2 }, `{"spec":{"disks":[{"name":"a","size":2,"x":1}]}}`},
		"in a renamed element":            {`{"spec":{"disks":[{"name":"a","x":1},{"name":"b","x":2}]}}`, func(m *machine) { m.Spec.Disks[0].Name = "c" }, `{"spec":{"disks":[{"name":"c","x":1},{"name":"b","x":2}]}}`},
		"in elements without names":       {`{"spec":{"disks":[{"size":1,"x":1},{"size":2,"x":2}]}}`, func(m *machine) { m.Spec.Disks[1].Size = 3 }, `{"spec":{"disks":[{"size":1,"x":1},{"size":3,"x":2}]}}`},
		"when one is appended":            {`{"spec":{"disks":[{"name":"a","x":1}]}}`, func(m *machine) { m.Spec.Disks = append(m.Spec.Disks, disk{Name: "b", Size: 1}) }, `{"spec":{"disks":[{"name":"a","x":1},{"name":"b","size":1}]}}`},
		"when one is put first":           {`{"spec":{"disks":[{"name":"a","x":1}]}}`, func(m *machine) { m.Spec.Disks = slices.Insert(m.Spec.Disks, 0, disk{Name: "b", Size: 1}) }, `{"spec":{"disks":[{"name":"b","size":1},{"name":"a","x":1}]}}`},
		"when the first goes":             {`{"spec":{"disks":[{"name":"a","x":1},{"name":"b","x":2}]}}`, func(m *machine) { m.Spec.Disks = m.Spec.Disks[1:] }, `{"spec":{"disks":[{"name":"b","x":2}]}}`},
		"when the first goes, one grows":  {`{"spec":{"disks":[{"name":"a","x":1},{"name":"b","x":2}]}}`, func(m *machine) { m.Spec.Disks = m.Spec.Disks[1:]; m.Spec.Disks[0].Size = 5 }, `{"spec":{"disks":[{"name":"b","size":5,"x":2}]}}`},
		"in another order":                {`{"spec":{"disks":[{"name":"a","x":1},{"name":"b","x":2},{"name":"c","x":3}]}}`, func(m *machine) { slices.Reverse(m.Spec.Disks); m.Spec.Disks[0].Size = 7 }, `{"spec":{"disks":[{"name":"c","size":7,"x":3},{"name":"b","x":2},{"name":"a","x":1}]}}`},
		"not when all go":                 {`{"spec":{"disks":[{"name":"a","x":1}],"labels":{"a":"b","c":"d"}}}`, func(m *machine) { m.Spec.Disks = nil; delete(m.Spec.Labels, "a") }, `{"spec":{"labels":{"c":"d"}}}`},
		"not of what takes another place": {`{"spec":{"disks":[{"name":"a","x":1},{"name":"b","x":2}]}}`, func(m *machine) { m.Spec.Disks = []disk{{Name: "z", Size: 1}} }, `{"spec":{"disks":[{"name":"z","size":1}]}}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := mutation.Edit(runtime.RawExtension{Raw: []byte(tc.before)}, func(m *machine) error {
				tc.change(m)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := apply(t, tc.before, p.PatchType, p.Patch); diff(t, tc.want, got) != "" {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestEditWithoutChangeIsNoPatch(t *testing.T) {
	t.Parallel()
	called := false
	p, err := mutation.Edit(runtime.RawExtension{}, func(*machine) error { called = true; return nil })
	if p.Patch != nil || err != nil || called {
		t.Errorf("without an object: got %v, %v, called %v", p, err, called)
	}
	p, err = mutation.Edit([]byte(`{"spec":{"disks":[]}}`), func(*machine) error { return nil })
	if p.Patch != nil || err != nil {
		t.Errorf("without a change: got %v, %v", p, err)
	}
}

func TestEditSaysWhatWentWrong(t *testing.T) {
	t.Parallel()
	_, err := mutation.Edit([]byte(`{"spec":{"disks":7}}`), func(*machine) error { return nil })
	if got, want := fmt.Sprint(err), "read as mutation_test.machine: json: cannot unmarshal number into Go struct field .spec.disks of type []mutation_test.disk"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	_, err = mutation.Edit([]byte(`{}`), func(*machine) error { return errors.New("no room") })
	if got, want := fmt.Sprint(err), "no room"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	_, err = mutation.Edit([]byte(`{"metadata":{"labels":{"a":"b"}}}`), func(k *bootstrapv1.KubeadmConfig) error {
		k.Labels["a"] = "c"
		return nil
	})
	if got, want := fmt.Sprint(err), "changes /metadata/labels/a: a patch may change only spec"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestForGivesTemplatesOfOneVersionTheirType(t *testing.T) {
	t.Parallel()
	gvk := controlplanev1.GroupVersion().WithKind("KubeadmControlPlaneTemplate")
	visit := func(_ context.Context, t *mutation.Template, k *controlplanev1.KubeadmControlPlaneTemplate) error {
		k.Spec.Template.Spec.KubeadmConfigSpec.ClusterConfiguration.ImageRepository = "registry.example.com/" + t.Builtins.Cluster.Name
		return nil
	}
	resp := &hooksv1.GeneratePatchesResponse{}
	err := mutation.GeneratePatches(t.Context(), request(), resp, mutation.Each(
		mutation.For(gvk, visit, mutation.ControlPlane()),
		mutation.For(gvk.GroupKind().WithVersion("v1beta1"), visit),
		mutation.For(gvk, visit, mutation.MachinePool()),
	))
	if err != nil || len(resp.Items) != 1 {
		t.Fatalf("got %v, %v; want one patch", resp.Items, err)
	}
	want := `[{"op":"add","path":"/spec/template/spec/kubeadmConfigSpec","value":{"clusterConfiguration":{"imageRepository":"registry.example.com/demo"}}}]`
	if got := string(resp.Items[0].Patch); got != want || resp.Items[0].UID != "2" {
		t.Errorf("got %s %s, want 2 %s", resp.Items[0].UID, got, want)
	}
}

// FuzzEdit changes an object through a Go type and checks that nothing else is lost.
func FuzzEdit(f *testing.F) {
	f.Add(`{"spec":{"disks":[{"name":"a","x":1},{"x":[2]}],"y":{}}}`, uint8(0), 1)
	f.Add(`{"spec":{"disks":[{"size":2},{"size":2},{"size":2,"x":null}],"network":null}}`, uint8(1), 2)
	f.Add(`{"spec":{"disks":[{"name":"a"},{"name":"a","z":0.5}]},"x":1e300}`, uint8(2), 3)
	f.Fuzz(func(t *testing.T, before string, at uint8, size int) {
		var want machine
		p, err := mutation.Edit([]byte(before), func(m *machine) error {
			if n := len(m.Spec.Disks); n > 0 {
				m.Spec.Disks = slices.Delete(m.Spec.Disks, int(at)%n, int(at)%n+1)
			}
			for i := range m.Spec.Disks {
				m.Spec.Disks[i].Size += size
			}
			m.Spec.Network.MTU = size
			want = *m
			return nil
		})
		if err != nil || p.Patch == nil {
			return
		}
		var got machine
		after := apply(t, before, p.PatchType, p.Patch)
		if err := kjson.UnmarshalCaseSensitivePreserveInts(after, &got); err != nil {
			t.Fatal(err)
		}
		if g, w := encode(t, got), encode(t, want); g != w {
			t.Fatalf("%s on %s: got %s, want %s", p.Patch, before, g, w)
		}
	})
}

func encode(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
