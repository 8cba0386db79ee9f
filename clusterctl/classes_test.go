// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/controller/topology/blueprint"
	"github.com/capstan-dev/capstan/internal/controller/topology/desired"
	"github.com/capstan-dev/capstan/internal/controller/topology/patches"
	"github.com/capstan-dev/capstan/internal/controller/topology/upgrade"
	"github.com/capstan-dev/capstan/internal/pure/variables"
)

func TestTheClassOfATemplateComesAlong(t *testing.T) {
	t.Parallel()
	const mine = "kind: ClusterClass\napiVersion: cluster.x-k8s.io/v1beta2\nmetadata: {name: x}\n---\nkind: T\napiVersion: x.io/v1\nmetadata: {name: ${T:=t}, namespace: elsewhere}\n"
	cluster := func(topology string) string {
		return "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: c}\nspec: {topology: {" + topology + "}}\n"
	}
	const class, part = "ClusterClass fleet/x", "T fleet/t"
	for name, tc := range map[string]struct {
		template string
		want     []string
		err      string
	}{
		"one":                         {cluster("classRef: {name: x}"), []string{class, part, "Cluster fleet/c"}, ""},
		"one of two":                  {cluster("classRef: {name: x}") + "---\n" + cluster("classRef: {name: x}"), []string{class, part, "Cluster fleet/c", "Cluster fleet/c"}, ""},
		"in v1beta1":                  {strings.ReplaceAll(cluster("class: x"), "v1beta2", "v1beta1"), []string{class, part, "Cluster fleet/c"}, ""},
		"one of its namespace":        {cluster("classRef: {name: x, namespace: fleet}"), []string{class, part, "Cluster fleet/c"}, ""},
		"one of another namespace":    {cluster("classRef: {name: x, namespace: other}"), []string{"Cluster fleet/c"}, ""},
		"one that the template has":   {cluster("classRef: {name: x}") + "---\n" + mine[:strings.Index(mine, "---")], []string{"Cluster fleet/c", "ClusterClass fleet/x"}, ""},
		"one that does not exist":     {cluster("classRef: {name: z}"), []string{"Cluster fleet/c"}, ""},
		"one that cannot be a file's": {cluster("classRef: {name: ../x}"), []string{"Cluster fleet/c"}, ""},
		"none":                        {cluster(""), []string{"Cluster fleet/c"}, ""},
		"one that cannot be read":     {cluster("classRef: {name: broken}"), nil, "read the class: no"},
		"one that is nonsense":        {cluster("classRef: {name: nonsense}"), nil, "ClusterClass nonsense: document 1 (line 1) has no apiVersion and kind"},
		"one that lacks a value":      {cluster("classRef: {name: open}"), nil, "ClusterClass open: no value for the variables [A]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doc, err := Generate(GenerateOptions{Name: "c", Namespace: "fleet", Template: []byte(tc.template), Class: func(key client.ObjectKey) ([]byte, error) {
				switch key {
				case client.ObjectKey{Namespace: "fleet", Name: "x"}:
					return []byte(mine), nil
				case client.ObjectKey{Namespace: "fleet", Name: "nonsense"}:
					return []byte("a: b"), nil
				case client.ObjectKey{Namespace: "fleet", Name: "open"}:
					return []byte("a: ${A}"), nil
				case client.ObjectKey{Namespace: "fleet", Name: "broken"}:
					return nil, errors.New("read the class: no")
				}
				if strings.Contains(key.Name, "/") {
					t.Errorf("asked for %s", key)
				}
				return nil, nil
			}})
			if tc.err != "" || err != nil {
				if err == nil || !strings.HasPrefix(err.Error(), tc.err) {
					t.Errorf("error %v, want %q", err, tc.err)
				}
				return
			}
			objects, err := template.Objects(doc)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, obj := range objects {
				got = append(got, fmt.Sprintf("%s %s/%s", obj.GetKind(), obj.GetNamespace(), obj.GetName()))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("generated (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAClusterComesWhenItsClassIsReady has a class that is ready when it is read for
// the second time.
func TestAClusterComesWhenItsClassIsReady(t *testing.T) {
	t.Parallel()
	s, looks := newServer(t), 0
	slow := interceptor.NewClient(s, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
		err := c.Get(ctx, key, obj, o...)
		if class, ok := obj.(*clusterv1.ClusterClass); ok {
			if looks++; looks < 2 {
				class.Status.Conditions = nil
			}
		}
		return err
	}})
	s.refuse = func(obj client.Object) error {
		if obj.GetObjectKind().GroupVersionKind().Kind == "Cluster" && len(s.sent) > 0 && looks != 2 { // not when it is only checked
			return fmt.Errorf("after %d reads of its class", looks)
		}
		return nil
	}
	err := (&Client{mgmt: slow}).Create(t.Context(), doc(core+" Cluster c {topology: {classRef: {name: class}, version: v1.36.3}}", core+" ClusterClass class"), func(Event) {})
	if err != nil || looks != 2 {
		t.Errorf("%d looks, error %v", looks, err)
	}
}

// TestTheClassOfLocalClustersHasAllThatItNames renders a Cluster that uses all of
// the class.
func TestTheClassOfLocalClustersHasAllThatItNames(t *testing.T) {
	t.Parallel()
	raw, err := Generate(GenerateOptions{Name: "demo", KubernetesVersion: "v1.36.3", Template: template.LocalTopology(), Class: func(key client.ObjectKey) ([]byte, error) { return template.LocalClass(key.Name), nil }})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := template.Objects(raw)
	if err != nil {
		t.Fatal(err)
	}
	class, cluster, named := &clusterv1.ClusterClass{}, &clusterv1.Cluster{}, map[string]*unstructured.Unstructured{}
	into := map[string]any{"ClusterClass": class, "Cluster": cluster}
	for _, obj := range objects {
		named[obj.GetKind()+"/"+obj.GetName()] = obj
		if typed := into[obj.GetKind()]; typed != nil {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(obj.Object, typed, true); err != nil {
				t.Fatal(err)
			}
		}
	}
	if errs := variables.Check(nil, class.Spec.Variables, nil); len(errs) > 0 {
		t.Error(errs.ToAggregate())
	}
	topology := &cluster.Spec.Topology
	err = yaml.Unmarshal([]byte(`
workers:
  machineDeployments: [{class: default-worker, name: md-0}]
  machinePools: [{class: default-worker, name: mp-0}]
variables:
- {name: imageRepository, value: registry.example.com}
- {name: failureDomains, value: [a, "1"]}
- {name: controlPlaneStartup, value: {vm: 1, apiServer: 4}}
- {name: workerStartup, value: {vm: 5, jitterPercent: 6}}
`), topology)
	if err != nil {
		t.Fatal(err)
	}
	got := compute(t, class, cluster, named)
	want := map[string]string{
		"repository": "registry.example.com",
		"domains":    `[{"controlPlane":true,"name":"a"},{"controlPlane":true,"name":"1"}]`,
		"hosts":      `{"apiServer":{"jitterPercent":0,"startupMilliseconds":4},"etcd":{"jitterPercent":0,"startupMilliseconds":0},"node":{"jitterPercent":0,"startupMilliseconds":0},"vm":{"jitterPercent":0,"startupMilliseconds":1}}`,
		"workers":    `{"node":{"jitterPercent":6,"startupMilliseconds":0},"vm":{"jitterPercent":6,"startupMilliseconds":5}}`,
		"pool":       `{"node":{"jitterPercent":6,"startupMilliseconds":0},"vm":{"jitterPercent":6,"startupMilliseconds":5}}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("with variables (-want +got):\n%s", diff)
	}
	topology.Variables = nil
	want = map[string]string{"repository": "", "domains": "null", "hosts": "{}", "workers": "{}", "pool": "{}"}
	if diff := cmp.Diff(want, compute(t, class, cluster, named)); diff != "" {
		t.Errorf("without variables (-want +got):\n%s", diff)
	}
}

// compute is what of the objects of a Cluster depends on its variables.
func compute(t *testing.T, class *clusterv1.ClusterClass, cluster *clusterv1.Cluster, templates map[string]*unstructured.Unstructured) map[string]string {
	t.Helper()
	status, err := variables.Merge([]variables.Source{{From: "inline", Variables: class.Spec.Variables}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	class.Status.Variables = status
	definitions, err := variables.Resolve(status, variables.Compile)
	if err != nil {
		t.Fatal(err)
	}
	topology := &cluster.Spec.Topology
	if errs := append(definitions.Default(nil, topology), definitions.Validate(nil, topology, nil)...); len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	compiled, err := patches.Compile(class)
	if err != nil {
		t.Fatal(err)
	}
	at := upgrade.Decision{Version: topology.Version, State: upgrade.Current}
	d, err := desired.Compute(desired.Input{
		Cluster: cluster, Blueprint: blueprint.Of(class, topology), Contract: contract.V1Beta2, Patches: compiled,
		Templates: func(ref clusterv1.ClusterClassTemplateReference) (*unstructured.Unstructured, error) {
			found := templates[ref.Kind+"/"+ref.Name]
			if found == nil {
				return nil, fmt.Errorf("there is no %s %s", ref.Kind, ref.Name)
			}
			return found, nil
		},
		Plan: upgrade.Plan{ControlPlane: at, Workers: map[upgrade.GroupKey]upgrade.Decision{
			{Kind: upgrade.MachineDeployment, Name: "md-0"}: at, {Kind: upgrade.MachinePool, Name: "mp-0"}: at,
		}},
	}, nil)
	if err == nil {
		err = errors.Join(d.Infrastructure.Err, d.ControlPlane.Err, d.Deployments[0].Err, d.Pools[0].Err)
	}
	if err != nil || len(d.Unmatched) > 0 {
		t.Fatal(err, d.Unmatched)
	}
	in := func(obj *unstructured.Unstructured, path ...string) string {
		found, _, err := unstructured.NestedFieldNoCopy(obj.Object, path...)
		if err != nil {
			t.Error(err)
		}
		if text, ok := found.(string); ok {
			return text
		}
		text, err := yaml.Marshal(found)
		if err == nil {
			text, err = yaml.YAMLToJSON(text)
		}
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	repository := in(d.ControlPlane.Object, "spec", "kubeadmConfigSpec", "clusterConfiguration", "imageRepository")
	return map[string]string{
		"repository": strings.TrimPrefix(repository, "null"),
		"domains":    in(d.Infrastructure.Object, "spec", "failureDomains"),
		"hosts":      in(d.ControlPlane.Hosts, "spec", "template", "spec", "simulated"),
		"workers":    in(d.Deployments[0].Hosts, "spec", "template", "spec", "simulated"),
		"pool":       in(d.Pools[0].Hosts, "spec", "template", "simulated"),
	}
}
