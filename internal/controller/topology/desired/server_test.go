// SPDX-License-Identifier: Apache-2.0

package desired_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/builder/differ"
	"github.com/capstan-dev/capstan/internal/controller/topology/upgrade"
	"github.com/capstan-dev/capstan/internal/pure/ssadiff"
	"github.com/capstan-dev/capstan/manifests"
)

// server stores applied objects as an API server does, with the schemas of Capstan's
// kinds.
type server struct {
	testing.TB
	local   *differ.Local
	types   map[schema.GroupVersionKind]*ssadiff.Type
	plurals map[string]string
	live    map[string]*unstructured.Unstructured // by kind/name
	wrote   []string
}

// serve has a world be stored in a server.
func serve(t testing.TB, w *world) *server {
	t.Helper()
	crds, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{TB: t, types: map[schema.GroupVersionKind]*ssadiff.Type{}, plurals: map[string]string{}, live: map[string]*unstructured.Unstructured{}}
	if s.local, err = differ.NewLocal(crds); err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds {
		s.plurals[crd.Spec.Names.Kind] = crd.Spec.Names.Plural
		for _, v := range crd.Spec.Versions {
			text, err := json.Marshal(v.Schema.OpenAPIV3Schema)
			if err != nil {
				t.Fatal(err)
			}
			gvk := schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind}
			if s.types[gvk], err = ssadiff.NewType(gvk, text); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.store = s.apply
	w.same = func(current, wanted *unstructured.Unstructured) (bool, error) {
		return s.intend(wanted).SpecUnchanged(current.Object)
	}
	w.of = func(current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		fields, err := s.types[current.GroupVersionKind()].Applied(differ.Manager, current.Object)
		return &unstructured.Unstructured{Object: fields}, err
	}
	return s
}

func (s *server) intend(o *unstructured.Unstructured) *ssadiff.Intent {
	s.Helper()
	in, err := s.types[o.GroupVersionKind()].Intend(differ.Manager, runtime.DeepCopyJSON(o.Object))
	if err != nil {
		s.Fatal(err)
	}
	return in
}

// apply applies the desired state of an object, if that changes anything.
func (s *server) apply(o *unstructured.Unstructured) *unstructured.Unstructured {
	s.Helper()
	key, in := o.GetKind()+"/"+o.GetName(), s.intend(o)
	if live := s.live[key]; live != nil && !in.Against(live.Object, nil).Changed() {
		return live.DeepCopy()
	}
	gv := o.GroupVersionKind().GroupVersion()
	answer, code, err := s.local.Do(s.Context(), differ.Request{
		Method: http.MethodPatch, Type: "application/apply-patch+yaml", Query: "force=true&fieldManager=" + differ.Manager, Body: in.Object(),
		Path: "/apis/" + gv.String() + "/namespaces/" + o.GetNamespace() + "/" + s.plurals[o.GetKind()] + "/" + o.GetName(),
	})
	if err != nil || code != http.StatusOK {
		s.Fatalf("%s is refused: %d %v %v", key, code, answer["message"], err)
	}
	s.wrote = append(s.wrote, key)
	s.live[key] = &unstructured.Unstructured{Object: answer}
	return s.live[key].DeepCopy()
}

// TestServerStoresDesiredObjects takes a Cluster of Capstan's own kinds through its
// lifecycle on the server's own code: writes are accepted, steady state follows
// immediately, and waiting parts do not change in the fields that wait.
func TestServerStoresDesiredObjects(t *testing.T) {
	t.Parallel()
	w := load(t, "local.yaml")
	s := serve(t, w)
	step := func(what string, want ...string) {
		t.Helper()
		s.wrote = nil
		d := w.write(t)
		if got := errs(d); len(got) > 0 {
			t.Errorf("%s: %v", what, got)
		}
		if diff := cmp.Diff(want, kinds(s.wrote)); diff != "" {
			t.Errorf("%s: written is (-want +got):\n%s", what, diff)
		}
		s.wrote = nil
		if w.write(t); len(s.wrote) > 0 {
			t.Errorf("%s: written again is %v", what, s.wrote)
		}
	}
	step("new", "LocalCluster", "LocalMachineTemplate", "KubeadmControlPlane", "MachineHealthCheck",
		"KubeadmConfigTemplate", "LocalMachineTemplate", "MachineDeployment", "MachineHealthCheck", "KubeadmConfig", "LocalMachinePool", "MachinePool")
	topology := &w.cluster.Spec.Topology
	topology.ControlPlane.Metadata.Labels = map[string]string{"more": "1"}
	step("a label", "KubeadmControlPlane")
	before := w.current.ControlPlane
	decide(w, "v1.33.0", upgrade.PendingUpgrade)
	topology.Version = "v1.34.0"
	topology.Variables[0].Value.Raw = []byte("200")
	w.templates["KubeadmConfigTemplate/local"].Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["verbosity"] = int64(3)
	w.class.Spec.Workers.MachinePools[0].FailureDomains = []string{"a", "c"}
	step("everything changes while it waits")
	topology.ControlPlane.Replicas = new(int32(5))
	topology.ControlPlane.Metadata.Labels = nil
	w.class.Spec.ControlPlane.Taints = nil
	step("and more that replaces no machine")
	if diff := cmp.Diff(before.Object["spec"], w.current.ControlPlane.Object["spec"]); diff != "" {
		t.Errorf("control plane (-before +after):\n%s", diff)
	}
	held := strings.Join(w.compute(t).Held(), "\n")
	for _, want := range []string{"KubeadmControlPlane demo", "spec.replicas", "MachinePool demo", "spec.failureDomains", "spec.template.spec.bootstrap.configRef"} {
		if !strings.Contains(held, want) {
			t.Errorf("held is %s, want %q in it", held, want)
		}
	}
	w.plan = nil
	step("it is its turn", "LocalMachineTemplate", "KubeadmControlPlane", "KubeadmConfigTemplate", "LocalMachineTemplate", "MachineDeployment", "KubeadmConfig", "MachinePool")
}

// kinds are those of keys.
func kinds(keys []string) (out []string) {
	for _, key := range keys {
		kind, _, _ := strings.Cut(key, "/")
		out = append(out, kind)
	}
	return out
}
