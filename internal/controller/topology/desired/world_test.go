// SPDX-License-Identifier: Apache-2.0

package desired_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/controller/topology/blueprint"
	"github.com/capstan-dev/capstan/internal/controller/topology/desired"
	"github.com/capstan-dev/capstan/internal/controller/topology/patches"
	"github.com/capstan-dev/capstan/internal/controller/topology/upgrade"
)

// world is a Cluster with its class, and what there is of it.
type world struct {
	class     *clusterv1.ClusterClass
	cluster   *clusterv1.Cluster
	templates map[string]*unstructured.Unstructured // by kind/name
	contract  string
	applied   map[string]*unstructured.Unstructured // what was written, by kind/name
	current   desired.Current
	plan      *upgrade.Plan // nil: all is to have the version of the topology
	same      func(current, wanted *unstructured.Unstructured) (bool, error)
	ext       desired.Extensions
	// store returns the stored form of an object; nil if it is stored as written.
	store func(*unstructured.Unstructured) *unstructured.Unstructured
	of    func(current *unstructured.Unstructured) (*unstructured.Unstructured, error) // what of it we have written
}

// load reads a world from a file of testdata.
func load(t testing.TB, file string) *world {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{class: &clusterv1.ClusterClass{}, cluster: &clusterv1.Cluster{}, templates: map[string]*unstructured.Unstructured{}, contract: contract.V1Beta2}
	documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		u := &unstructured.Unstructured{}
		if err := documents.Decode(&u.Object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		u = clean(t, u)
		switch u.GetKind() {
		case "ClusterClass":
			fill(t, u, w.class)
		case "Cluster":
			fill(t, u, w.cluster)
		default:
			w.templates[u.GetKind()+"/"+u.GetName()] = u
		}
	}
	return w
}

// clean converts the values of an object to the types of the server's JSON.
func clean(t testing.TB, u *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	text, err := yaml.Marshal(u.Object)
	if err != nil {
		t.Fatal(err)
	}
	if text, err = yaml.YAMLToJSON(text); err != nil {
		t.Fatal(err)
	}
	out := &unstructured.Unstructured{}
	if err := out.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	return out
}

func fill(t testing.TB, u *unstructured.Unstructured, into any) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, into, true); err != nil {
		t.Fatal(err)
	}
}

func (w *world) template(ref clusterv1.ClusterClassTemplateReference) (*unstructured.Unstructured, error) {
	u := w.templates[ref.Kind+"/"+ref.Name]
	if u == nil {
		return nil, fmt.Errorf("there is no %s %s", ref.Kind, ref.Name)
	}
	return u, nil
}

// input is what Compute gets.
func (w *world) input(t testing.TB) desired.Input {
	t.Helper()
	compiled, err := patches.Compile(w.class)
	if err != nil {
		t.Fatal(err)
	}
	topology := &w.cluster.Spec.Topology
	plan := upgrade.Plan{ControlPlane: upgrade.Decision{Version: topology.Version, State: upgrade.Current}, Workers: map[upgrade.GroupKey]upgrade.Decision{}}
	for _, md := range topology.Workers.MachineDeployments {
		plan.Workers[upgrade.GroupKey{Kind: upgrade.MachineDeployment, Name: md.Name}] = upgrade.Decision{Version: topology.Version, State: upgrade.Current}
	}
	for _, mp := range topology.Workers.MachinePools {
		plan.Workers[upgrade.GroupKey{Kind: upgrade.MachinePool, Name: mp.Name}] = upgrade.Decision{Version: topology.Version, State: upgrade.Current}
	}
	if w.plan != nil {
		plan = *w.plan
	}
	return desired.Input{
		Cluster: w.cluster, Blueprint: blueprint.Of(w.class, topology), Templates: w.template, Contract: w.contract,
		Patches: compiled, Current: w.current, Plan: plan, Same: w.same,
		Applied: w.apply,
	}
}

// apply is what was written of an object.
func (w *world) apply(current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if w.of != nil {
		return w.of(current)
	}
	return w.applied[current.GetKind()+"/"+current.GetName()].DeepCopy(), nil
}

// write simulates that all objects are written, with fields that other controllers add,
// and returns the desired state.
func (w *world) write(t testing.TB) desired.Desired {
	t.Helper()
	d := w.compute(t)
	if w.applied == nil {
		w.applied = map[string]*unstructured.Unstructured{}
	}
	stored := map[*unstructured.Unstructured]*unstructured.Unstructured{}
	for _, o := range d.Objects() {
		w.applied[o.GetKind()+"/"+o.GetName()] = o.DeepCopy()
		stored[o] = o.DeepCopy()
		stored[o].SetUID("live")
		if w.store != nil {
			stored[o] = w.store(o)
		}
	}
	live := func(was, o *unstructured.Unstructured) *unstructured.Unstructured {
		if o == nil {
			return was
		}
		return stored[o]
	}
	is := &w.current
	is.Infrastructure = live(is.Infrastructure, d.Infrastructure.Object)
	is.ControlPlane, is.Hosts = live(is.ControlPlane, d.ControlPlane.Object), live(is.Hosts, d.ControlPlane.Hosts)
	if is.ControlPlane != nil {
		version := at(t, is.ControlPlane, "spec version")
		if err := unstructured.SetNestedField(is.ControlPlane.Object, version, "status", "version"); err != nil {
			t.Fatal(err)
		}
	}
	groups := func(was map[string]*desired.Group, all []desired.GroupPart) map[string]*desired.Group {
		out := map[string]*desired.Group{}
		for _, g := range all {
			before := was[g.Name]
			if before == nil {
				before = &desired.Group{}
			}
			if is := (desired.Group{live(before.Object, g.Object), live(before.Bootstrap, g.Bootstrap), live(before.Hosts, g.Hosts)}); is.Object != nil {
				out[g.Name] = &is
			}
		}
		return out
	}
	is.Deployments, is.Pools = groups(is.Deployments, d.Deployments), groups(is.Pools, d.Pools)
	w.cluster.Spec.InfrastructureRef, w.cluster.Spec.ControlPlaneRef = d.InfrastructureRef, d.ControlPlaneRef
	return d
}

func (w *world) compute(t testing.TB) desired.Desired {
	t.Helper()
	d, err := desired.Compute(w.input(t), w.ext)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
