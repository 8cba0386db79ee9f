// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/kit/webhook"
)

const (
	ready = `
  conditions: [{type: VariablesReady, status: "True", reason: VariablesReady, lastTransitionTime: "2026-01-01T00:00:00Z"}]
  observedGeneration: 1
  variables:
  - {name: image, definitions: [{from: inline, required: true, schema: {openAPIV3Schema: {type: object, properties: {name: {type: string, default: base}}}}}]}
  - {name: size, definitions: [{from: inline, required: false, schema: {openAPIV3Schema: {type: integer, default: 3, x-kubernetes-validations: [{rule: "self >= oldSelf", message: must not shrink}]}}}]}
`
	plane = `
apiVersion: controlplane.t.io/v1
kind: Plane
metadata: {namespace: ns, name: plane}
spec: {version: v1.34.0}
status: {version: v1.34.0}
`
)

// newHooks returns the webhooks for a management cluster with some classes and
// Clusters, and a control plane.
func newHooks(t *testing.T, controlPlane string, objects ...client.Object) []webhook.Webhook {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), corev1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	kind := schema.GroupVersionKind{Group: "controlplane.t.io", Version: "v1", Kind: "Plane"}
	scheme.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Name, crd.Labels = "planes.controlplane.t.io", map[string]string{"cluster.x-k8s.io/v1beta2": "v1"}
	objects = append(objects, crd)
	if controlPlane != "" {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(controlPlane), &u.Object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, u)
	}
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithIndex(&clusterv1.Cluster{}, index.ClusterClass, index.OfClass)
	for _, kind := range index.Kinds() {
		b = b.WithIndex(kind, index.ClusterName, index.Of)
	}
	c := b.Build()
	return Webhooks(Reads{Cache: c, Providers: provider.New(c, nil), Workload: nodes{c}})
}

// nodes reads the Nodes in a management cluster, as those of all workload clusters.
// Without Nodes no workload cluster is connected.
type nodes struct{ mgmt client.Client }

func (n nodes) Client(ctx context.Context, _ client.ObjectKey) (client.Client, error) {
	var all corev1.NodeList
	if err := n.mgmt.List(ctx, &all); err != nil || len(all.Items) > 0 {
		return n.mgmt, err
	}
	return nil, workload.ErrNotConnected
}

// newClass returns a ready class, named x in ns unless changes set another name.
func newClass(t *testing.T, changes ...string) *clusterv1.ClusterClass {
	t.Helper()
	text := wholeClass + "status:" + ready
	c := builder.Parse[clusterv1.ClusterClass](t, strings.NewReplacer(changes...).Replace(text))
	c.Generation, c.UID = 1, "u"
	return c
}

func newCluster(t *testing.T, text string) *clusterv1.Cluster {
	t.Helper()
	c := builder.Parse[clusterv1.Cluster](t, "{metadata: {namespace: ns, name: c}, spec: {controlPlaneRef: {apiGroup: controlplane.t.io, kind: Plane, name: plane}, topology: {classRef: {name: x}, version: v1.34.0}}}")
	if err := yaml.Unmarshal([]byte(text), c); err != nil {
		t.Fatal(err)
	}
	return c
}

// outcome returns the result of a write of a Cluster: first of the defaulting
// webhooks, then of the validating ones. An admitted Cluster is defaulted.
func outcome(t *testing.T, all []webhook.Webhook, obj, old client.Object) (refused string, warnings []string) {
	t.Helper()
	for _, w := range all {
		if _, isClass := obj.(*clusterv1.ClusterClass); isClass != (w.Kind.Kind == "ClusterClass") || len(w.Operations) > 0 {
			continue
		}
		req := &admissionv1.AdmissionRequest{Namespace: "ns", Name: obj.GetName()}
		req.Object.Raw = encode(t, obj)
		if old != nil {
			req.OldObject.Raw = encode(t, old)
		}
		response := w.Admit(t.Context(), req)
		warnings = append(warnings, response.Warnings...)
		if !response.Allowed {
			return response.Result.Message, warnings
		}
		if cluster, ok := obj.(*clusterv1.Cluster); ok && response.Patch != nil {
			apply(t, cluster, response.Patch)
		}
	}
	return "", warnings
}

func encode(t *testing.T, obj any) []byte {
	t.Helper()
	data, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestATopologyGetsTheVariablesOfItsClass(t *testing.T) {
	t.Parallel()
	all := newHooks(t, "", newClass(t))
	c := newCluster(t, "spec: {topology: {version: 1.34.0, variables: [{name: image, value: {}}], controlPlane: {variables: {overrides: [{name: image, value: {}}]}}}}")
	if refused, warnings := outcome(t, all, c, nil); refused != "" || len(warnings) > 0 {
		t.Fatalf("refused %q, warnings %q", refused, warnings)
	}
	want := builder.Parse[clusterv1.Topology](t, `{classRef: {name: x}, version: v1.34.0, variables: [{name: image, value: {"name":"base"}}, {name: size, value: 3}], controlPlane: {variables: {overrides: [{name: image, value: {"name":"base"}}]}}}`)
	if diff := cmp.Diff(*want, c.Spec.Topology); diff != "" || !slices.Equal(c.Finalizers, []string{clusterv1.ClusterFinalizer}) {
		t.Errorf("finalizers %q, topology (-want +got):\n%s", c.Finalizers, diff)
	}
}

// TestAnUpdateKeepsTheEndpointThatItLeavesOut updates a Cluster without its
// endpoint, as kubectl replace and tools that write whole objects do.
func TestAnUpdateKeepsTheEndpointThatItLeavesOut(t *testing.T) {
	t.Parallel()
	all := newHooks(t, "", newClass(t))
	old := newCluster(t, "spec: {controlPlaneEndpoint: {host: h, port: 6443}}")
	for text, want := range map[string]string{
		"spec: {paused: true}": "",
		"spec: {controlPlaneEndpoint: {host: other, port: 6443}}": "spec.controlPlaneEndpoint: Forbidden: cannot change once it is set: it is h:6443",
	} {
		c := newCluster(t, text)
		refused, _ := outcome(t, all, c, old)
		if want == "" && (refused != "" || c.Spec.ControlPlaneEndpoint != old.Spec.ControlPlaneEndpoint) || !strings.Contains(refused, want) {
			t.Errorf("%s: refused %q, endpoint %s, want %q", text, refused, c.Spec.ControlPlaneEndpoint.String(), want)
		}
	}
}

func TestATopologyIsHeldAgainstItsClass(t *testing.T) {
	t.Parallel()
	const unready = `ClusterClass is not successfully reconciled: status of VariablesReady condition on ClusterClass must be "True"`
	const image = "variables: [{name: image, value: {name: a}}]"
	tests := map[string]struct {
		class    []string // changes of it; nil for no class
		obj, old string
		refused  string
		warnings []string
	}{
		"a new one":              {class: []string{}, obj: "spec: {topology: {" + image + "}}"},
		"without what must be":   {class: []string{}, obj: "spec: {paused: false}", refused: `spec.topology.variables[image]: Required value: required variable "image" must be set`},
		"unknown variables":      {class: []string{}, obj: "spec: {topology: {variables: [{name: image, value: {name: a, tag: b}}, {name: color, value: red}]}}", refused: `[spec.topology.variables[image].value: Invalid value: "{\"name\":\"a\",\"tag\":\"b\"}": failed validation: "tag" field(s) are not specified in the variable schema of variable "image", spec.topology.variables[color]: Invalid value: "color": variable is not defined]`},
		"no class":               {obj: "spec: {paused: false}", warnings: []string{"ClusterClass ns/x does not exist: the topology was not checked, and has to wait for it"}},
		"a class of elsewhere":   {class: []string{}, obj: "spec: {topology: {classRef: {namespace: other}}}", warnings: []string{"ClusterClass other/x does not exist: the topology was not checked, and has to wait for it"}},
		"a class that is new":    {class: []string{`status: "True"`, `status: "False"`}, obj: "spec: {paused: false}", warnings: []string{unready + ": the variables of the topology were not checked"}},
		"a class that changed":   {class: []string{"observedGeneration: 1", "observedGeneration: 0"}, obj: "spec: {paused: false}", warnings: []string{"ClusterClass is not successfully reconciled: ClusterClass.status.observedGeneration must be 1, but is 0: the variables of the topology were not checked"}},
		"a version not listed":   {class: []string{}, obj: "spec: {topology: {version: v1.34.2, " + image + "}}", refused: `spec.topology.version: Invalid value: "v1.34.2": must be one of spec.kubernetesVersions of ClusterClass x: v1.33.2, v1.34.0, v1.34.1+a, v1.34.1+b, v1.35.0`},
		"classes there are not":  {class: []string{}, obj: "spec: {topology: {" + image + ", workers: {machineDeployments: [{class: huge, name: a}], machinePools: [{class: small, name: a}]}}}", refused: `[spec.topology.workers.machineDeployments[a].class: Invalid value: "huge": ClusterClass x has no such class of MachineDeployments, spec.topology.workers.machinePools[a].class: Invalid value: "small": ClusterClass x has no such class of MachinePools]`},
		"a check of nothing":     {class: []string{}, obj: "spec: {topology: {" + image + ", workers: {machineDeployments: [{class: small, name: a, healthCheck: {enabled: true}}]}}}", refused: "spec.topology.workers.machineDeployments[a].healthCheck.enabled: Forbidden: cannot be true: neither the topology nor the ClusterClass defines checks or remediation"},
		"a check of the class":   {class: []string{}, obj: "spec: {topology: {" + image + ", controlPlane: {healthCheck: {enabled: true}}}}"},
		"a check of no Machines": {class: []string{"    machineInfrastructure: {templateRef: {apiVersion: infrastructure.t.io/v1, kind: HostTemplate, name: host}}\n", ""}, obj: "spec: {topology: {" + image + ", controlPlane: {healthCheck: {enabled: true}}}}", refused: "spec.topology.controlPlane.healthCheck: Forbidden: the control plane of the ClusterClass has no machineInfrastructure, and so no Machines to check"},
		"scaled by two":          {class: []string{"{class: small,", "{class: small, metadata: {annotations: {cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size: '1'}},"}, obj: "spec: {topology: {" + image + ", workers: {machineDeployments: [{class: small, name: a, replicas: 1}, {class: small, name: b}]}}}", refused: "spec.topology.workers.machineDeployments[a].replicas: Forbidden: cannot be set with annotation cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size: the autoscaler says how many there are"},
		"a value that shrinks":   {class: []string{}, obj: "spec: {topology: {variables: [{name: image, value: {}}, {name: size, value: 1}]}}", old: "spec: {topology: {variables: [{name: image, value: {}}, {name: size, value: 2}]}}", refused: "spec.topology.variables[size].value: Invalid value: 1: must not shrink"},
		"paused without class":   {obj: "spec: {paused: true}", old: "spec: {paused: false}"},
		"labelled without class": {obj: "metadata: {labels: {a: b}}", old: "{}"},
		"deleted without class":  {obj: "metadata: {deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: [a/b]}\nspec: {topology: {version: v1.35.0}}", old: "{}"},
		"changed without class":  {obj: "spec: {topology: {controlPlane: {replicas: 3}}}", old: "{}", refused: `spec.topology.classRef: Invalid value: "ns/x": there is no such ClusterClass: create it, or name another`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var objects []client.Object
			if tc.class != nil {
				objects = append(objects, newClass(t, tc.class...))
			}
			var old client.Object
			if tc.old != "" {
				old = newCluster(t, tc.old)
			}
			expect(t, newHooks(t, "", objects...), newCluster(t, tc.obj), old, tc.refused, tc.warnings)
		})
	}
}

// expect fails unless a write is refused, or admitted with warnings, as desired.
func expect(t *testing.T, all []webhook.Webhook, obj, old client.Object, refused string, warnings []string) {
	t.Helper()
	got, warned := outcome(t, all, obj, old)
	if refused != "" {
		refused = `Cluster.cluster.x-k8s.io "c" is invalid: ` + refused
	}
	if diff := cmp.Diff(refused, got); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(warnings, warned); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestAClusterIsRebasedToAClassThatCanFollow(t *testing.T) {
	t.Parallel()
	const image = "variables: [{name: image, value: {name: a}}]"
	const follows = "spec: {topology: {classRef: {name: z}, " + image + "}}"
	tests := map[string]struct {
		old, other []string // changes of the class before and of the other, nil if it is not there
		obj        string
		refused    string
	}{
		"the same templates":       {old: []string{}, other: []string{}, obj: follows},
		"from a broken class":      {old: []string{`status: "True"`, `status: "False"`}, other: []string{}, obj: follows},
		"from one that has gone":   {other: []string{}, obj: follows, refused: `spec.topology.classRef: Invalid value: "z": the ClusterClass of the Cluster, ns/x, does not exist, so it is unknown whether this one can follow it: create it again`},
		"to one that is not there": {old: []string{}, obj: follows, refused: `spec.topology.classRef: Invalid value: "ns/z": there is no such ClusterClass: create it, or name another`},
		"to a broken one":          {old: []string{}, other: []string{`status: "True"`, `status: "False"`}, obj: follows, refused: `spec.topology.classRef: Invalid value: "z": ClusterClass is not successfully reconciled: status of VariablesReady condition on ClusterClass must be "True": wait for it, or name another`},
		"to other infrastructure":  {old: []string{}, other: []string{"HostsTemplate", "OtherTemplate"}, obj: follows, refused: `spec.topology.classRef: Invalid value: "z": cannot follow ClusterClass x: spec.infrastructure.templateRef is a OtherTemplate.infrastructure.t.io, and was a HostsTemplate.infrastructure.t.io`},
		"to other variables":       {old: []string{}, other: []string{"- {name: size, ", "- {name: size, ", "name: {type: string, default: base}", "tag: {type: string}"}, obj: follows, refused: `spec.topology.variables[image].value: Invalid value: "{\"name\":\"a\"}": failed validation: "name" field(s) are not specified in the variable schema of variable "image"`},
		"to other versions":        {old: []string{}, other: []string{"v1.34.0, ", ""}, obj: follows, refused: `spec.topology.version: Invalid value: "v1.34.0": must be one of spec.kubernetesVersions of ClusterClass z: v1.33.2, v1.34.1+a, v1.34.1+b, v1.35.0`},
		"to another namespace":     {old: []string{}, obj: "spec: {topology: {classRef: {name: x, namespace: other}}}", refused: `spec.topology.classRef: Invalid value: "other/x": there is no such ClusterClass: create it, or name another`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var objects []client.Object
			if tc.old != nil {
				objects = append(objects, newClass(t, tc.old...))
			}
			if tc.other != nil {
				other := newClass(t, tc.other...)
				other.Name, other.UID = "z", "v"
				objects = append(objects, other)
			}
			expect(t, newHooks(t, "", objects...), newCluster(t, tc.obj), newCluster(t, "spec: {topology: {"+image+"}}"), tc.refused, nil)
		})
	}
}

// TestAPoolKeepsTheKindOfItsBootstrap changes the worker class and the ClusterClass
// of a pool.
func TestAPoolKeepsTheKindOfItsBootstrap(t *testing.T) {
	t.Parallel()
	const seed = "{class: pond, bootstrap: {templateRef: {apiVersion: bootstrap.t.io/v1, kind: SeedTemplate, name: seed}}, infrastructure: {templateRef: {apiVersion: infrastructure.t.io/v1, kind: PoolTemplate, name: pool}}}"
	other := newClass(t, "    - {class: pool,", "    - "+seed+"\n    - {class: puddle,")
	other.Name, other.UID = "z", "v"
	all := newHooks(t, "", newClass(t, "    - {class: pool,", "    - "+seed+"\n    - {class: pool,"), other)
	with := func(class, pool, name string) *clusterv1.Cluster {
		return newCluster(t, "spec: {topology: {classRef: {name: "+class+"}, variables: [{name: image, value: {name: a}}], workers: {machinePools: [{class: "+pool+", name: "+name+"}]}}}")
	}
	const refused = "spec.topology.workers.machinePools[a]: Forbidden: its bootstrap is made from a BootTemplate.bootstrap.t.io, and would be from a SeedTemplate.bootstrap.t.io: make another pool of another class"
	for name, tc := range map[string]struct {
		obj     *clusterv1.Cluster
		refused string
	}{
		"another class":                 {with("x", "pond", "a"), refused},
		"another pool":                  {with("x", "pond", "b"), ""},
		"another ClusterClass":          {with("z", "puddle", "a"), ""},
		"other bootstrap, in the other": {with("z", "pond", "a"), refused},
	} {
		t.Run(name, func(t *testing.T) { expect(t, all, tc.obj, with("x", "pool", "a"), tc.refused, nil) })
	}
}

func TestTopologyVersionChangesOnlyInSteadyState(t *testing.T) {
	t.Parallel()
	const image = "variables: [{name: image, value: {name: a}}]"
	to := func(version string) string { return "spec: {topology: {version: " + version + ", " + image + "}}" }
	const at = "spec.topology.version: Invalid value: "
	const free = "kubernetesVersions: [v1.33.2, v1.34.0, v1.34.1+a, v1.34.1+b, v1.35.0]"
	machine := func(version string) client.Object {
		return builder.Parse[clusterv1.Machine](t, "{metadata: {namespace: ns, name: m, labels: {cluster.x-k8s.io/deployment-name: md}}, spec: {clusterName: c, version: "+version+"}}")
	}
	deployment := func(version string) client.Object {
		return builder.Parse[clusterv1.MachineDeployment](t, "{metadata: {namespace: ns, name: md, labels: {topology.cluster.x-k8s.io/owned: ''}}, spec: {clusterName: c, template: {spec: {clusterName: c, version: "+version+"}}}}")
	}
	pool := func(version string) client.Object {
		return builder.Parse[clusterv1.MachinePool](t, "{metadata: {namespace: ns, name: mp, labels: {topology.cluster.x-k8s.io/owned: ''}}, spec: {clusterName: c, template: {spec: {clusterName: c, version: "+version+"}}}, status: {nodeRefs: [{name: n}]}}")
	}
	node := func(kubelet string) client.Object {
		return builder.Parse[corev1.Node](t, "{metadata: {name: n}, status: {nodeInfo: {kubeletVersion: "+kubelet+"}}}")
	}
	const skip = "unsafe.topology.cluster.x-k8s.io/disable-update-version-check: ''"
	tests := map[string]struct {
		plane, class  string
		workers       []client.Object
		from, to      string
		meta, refused string
		warned        string
	}{
		"to the next":               {plane: plane, from: "v1.34.0", to: "v1.35.0"},
		"to a pre-release":          {plane: plane, class: "availabilityGates: []", from: "v1.34.0", to: "v1.34.0-rc.1"},
		"below a pre-release":       {plane: plane, class: "availabilityGates: []", from: "v1.34.0-rc.1", to: "v1.33.9", refused: at + `"v1.33.9": version cannot be decreased from "v1.34.0-rc.1" to "v1.33.9"`},
		"downwards":                 {plane: plane, from: "v1.34.0", to: "v1.33.2", refused: at + `"v1.33.2": version cannot be decreased from "v1.34.0" to "v1.33.2"`},
		"too far":                   {plane: plane, class: "availabilityGates: []", from: "v1.34.0", to: "v1.36.0", refused: at + `"v1.36.0": version cannot be increased from "v1.34.0" to "v1.36.0"`},
		"far, with a list":          {plane: strings.ReplaceAll(plane, "v1.34.0", "v1.33.2"), from: "v1.33.2", to: "v1.35.0"},
		"no control plane yet":      {from: "v1.34.0", to: "v1.33.2"},
		"back from no start":        {plane: plane, from: "v1.35.0", to: "v1.34.0"},
		"on from no start":          {plane: plane, from: "v1.34.1+a", to: "v1.35.0", refused: at + `"v1.35.0": Cluster.spec.topology.version v1.34.1+a was not propagated to control plane yet (control plane version v1.34.0)`},
		"while it is made":          {plane: strings.ReplaceAll(plane, "status: {version: v1.34.0}", ""), from: "v1.34.0", to: "v1.35.0", refused: at + `"v1.35.0": control plane is currently provisioning`},
		"while it is upgraded":      {plane: strings.ReplaceAll(plane, "status: {version: v1.34.0}", "status: {version: v1.33.2}"), from: "v1.34.0", to: "v1.35.0", refused: at + `"v1.35.0": control plane is still completing a previous upgrade`},
		"while a machine is behind": {plane: strings.ReplaceAll(plane, "status: {version: v1.34.0}", "status: {version: v1.34.0, versions: [{version: v1.33.2}, {version: v1.34.0}]}"), from: "v1.34.0", to: "v1.35.0", refused: at + `"v1.35.0": control plane is still completing a previous upgrade`},
		"told by versions alone":    {plane: strings.ReplaceAll(plane, "status: {version: v1.34.0}", "status: {versions: [{version: v1.34.0}]}"), from: "v1.34.0", to: "v1.35.0"},
		"while a hook blocks":       {plane: plane, from: "v1.34.0", to: "v1.35.0", meta: "runtime.cluster.x-k8s.io/pending-hooks: AfterClusterUpgrade", refused: at + `"v1.35.0": version cannot be changed when the "AfterClusterUpgrade" hook is still blocking`},
		"while workers wait":        {plane: plane, workers: []client.Object{deployment("v1.33.2")}, from: "v1.34.0", to: "v1.35.0", refused: at + `"v1.35.0": there are still MachineDeployments completing a previous upgrade: [md]`},
		"while workers roll":        {plane: plane, workers: []client.Object{deployment("v1.34.0"), machine("v1.33.2")}, from: "v1.34.0", to: "v1.35.0", refused: at + `"v1.35.0": there are still MachineDeployments completing a previous upgrade: [md]`},
		"when workers are done":     {plane: plane, workers: []client.Object{deployment("v1.34.0"), machine("v1.34.0")}, from: "v1.34.0", to: "v1.35.0"},
		"while a pool waits":        {plane: plane, workers: []client.Object{pool("v1.33.2"), node("v1.33.2")}, from: "v1.34.0", to: "v1.35.0", refused: at + `"v1.35.0": there are still MachinePools completing a previous upgrade: [mp]`},
		"while a pool rolls":        {plane: plane, workers: []client.Object{pool("v1.34.0"), node("v1.33.2")}, from: "v1.34.0", to: "v1.35.0", refused: at + `"v1.35.0": there are still MachinePools completing a previous upgrade: [mp]`},
		"when a pool is done":       {plane: plane, workers: []client.Object{pool("v1.34.0"), node("v1.34.0")}, from: "v1.34.0", to: "v1.35.0"},
		"not connected":             {plane: plane, workers: []client.Object{pool("v1.34.0")}, from: "v1.34.0", to: "v1.35.0", warned: "the workload cluster is not connected: whether MachinePools [mp] still complete a previous upgrade was not checked"},
		"by who knows":              {plane: plane, from: "v1.34.0", to: "v1.33.2", meta: skip, warned: at + `"v1.33.2": version cannot be decreased from "v1.34.0" to "v1.33.2"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.class == "" {
				tc.class = free
			}
			all := newHooks(t, tc.plane, append(tc.workers, newClass(t, free, tc.class))...)
			obj, old := newCluster(t, "metadata: {annotations: {"+tc.meta+"}}\n"+to(tc.to)), newCluster(t, "metadata: {annotations: {"+tc.meta+"}}\n"+to(tc.from))
			var warnings []string
			if tc.warned != "" {
				warnings = []string{tc.warned}
			}
			expect(t, all, obj, old, tc.refused, warnings)
		})
	}
}

func TestAClassInUseKeepsWhatItsClustersUse(t *testing.T) {
	t.Parallel()
	user := newCluster(t, "spec: {topology: {workers: {machineDeployments: [{class: small, name: a}], machinePools: [{class: pool, name: a}]}, controlPlane: {healthCheck: {enabled: true}}}}")
	misfit := newCluster(t, "metadata: {name: misfit}\nspec: {topology: {version: v1.20.0}}")
	leaving := newCluster(t, "metadata: {name: leaving, deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: [x.io/held]}\nspec: {topology: {version: v1.35.0}}")
	all := newHooks(t, "", newClass(t), user, misfit, leaving)
	const uses = "spec: Forbidden: Cluster ns/c uses the class, and would not fit it any more: spec.topology."
	tests := map[string]struct {
		changes []string
		want    string
	}{
		"as it was":              {nil, ""},
		"what no group will use": {[]string{", v1.35.0", ""}, ""},
		"its version":            {[]string{"v1.34.0, ", ""}, uses + `version: Invalid value: "v1.34.0": must be one of spec.kubernetesVersions of ClusterClass x: v1.33.2, v1.34.1+a, v1.34.1+b, v1.35.0`},
		"its class of workers":   {[]string{"class: small", "class: smaller"}, uses + `workers.machineDeployments[a].class: Invalid value: "small": ClusterClass x has no such class of MachineDeployments`},
		"its class of a pool":    {[]string{"class: pool", "class: pond"}, uses + `workers.machinePools[a].class: Invalid value: "pool": ClusterClass x has no such class of MachinePools`},
		"the bootstrap of a pool": {[]string{"BootTemplate, name: boot}}, infrastructure: {templateRef: {apiVersion: infrastructure.t.io/v1, kind: PoolTemplate", "SeedTemplate, name: boot}}, infrastructure: {templateRef: {apiVersion: infrastructure.t.io/v1, kind: PoolTemplate"},
			uses + "workers.machinePools[a]: Forbidden: its bootstrap is made from a BootTemplate.bootstrap.t.io, and would be from a SeedTemplate.bootstrap.t.io: make another pool of another class"},
		"the check that it wants": {[]string{"    healthCheck: {checks: {nodeStartupTimeoutSeconds: 600}, remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 20%}}}\n", ""}, uses + "controlPlane.healthCheck.enabled: Forbidden: cannot be true: neither the topology nor the ClusterClass defines checks or remediation"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _ := outcome(t, all, newClass(t, tc.changes...), newClass(t))
			want := tc.want
			if want != "" {
				want = `ClusterClass.cluster.x-k8s.io "x" is invalid: ` + want
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAClassIsDeletedWhenNoClusterUsesIt(t *testing.T) {
	t.Parallel()
	const used = `clusterclasses.cluster.x-k8s.io "x" is forbidden: ClusterClass cannot be deleted because it is used by Cluster(s): `
	of := func(namespace, name, class string) client.Object {
		c := newCluster(t, "metadata: {name: "+name+", namespace: "+namespace+"}\nspec: {topology: {classRef: {namespace: ns}}}")
		c.Spec.Topology.ClassRef.Name = class
		return c
	}
	tests := map[string]struct {
		clusters []client.Object
		want     string
	}{
		"without a manager": {},
		"by other's name":   {[]client.Object{of("ns", "a", "y")}, ""},
		"by two":            {[]client.Object{of("ns", "b", "x"), of("elsewhere", "a", "x")}, used + "elsewhere/a, ns/b"},
		"by many":           {[]client.Object{of("ns", "a", "x"), of("ns", "b", "x"), of("ns", "c", "x"), of("ns", "d", "x"), of("ns", "e", "x")}, used + "ns/a, ns/b, ns/c and 2 more"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, w := range newHooks(t, "", tc.clusters...) {
				if !slices.Contains(w.Operations, admissionregistrationv1.Delete) {
					continue
				}
				req := &admissionv1.AdmissionRequest{Operation: admissionv1.Delete, Name: "x"}
				req.OldObject.Raw = encode(t, newClass(t))
				got := ""
				if r := w.Admit(t.Context(), req); !r.Allowed {
					got = r.Result.Message
				}
				if got != tc.want {
					t.Errorf("refused %q, want %q", got, tc.want)
				}
			}
		})
	}
}

func apply(t *testing.T, c *clusterv1.Cluster, patch []byte) {
	t.Helper()
	decoded, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatal(err)
	}
	data, err := decoded.Apply(encode(t, c))
	if err != nil {
		t.Fatal(err)
	}
	*c = clusterv1.Cluster{}
	if err := json.Unmarshal(data, c); err != nil {
		t.Fatal(err)
	}
}
