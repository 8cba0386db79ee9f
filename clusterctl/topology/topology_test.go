// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/template"
)

// files reads objects of testdata; changes are pairs of a text and its replacement.
func files(t *testing.T, changes ...string) []*unstructured.Unstructured {
	t.Helper()
	var all []byte
	for _, name := range []string{"testdata/class.yaml", "testdata/cluster.yaml"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(append(all, "\n---\n"...), text...)
	}
	text := string(all)
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			t.Fatalf("there is no %q to change", changes[i])
		}
		text = strings.ReplaceAll(text, changes[i], changes[i+1])
	}
	objects, err := template.Objects([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func TestRender(t *testing.T) {
	t.Parallel()
	s, err := Read(files(t), "ns", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetVariable("startup", "7"); err != nil {
		t.Fatal(err)
	}
	r, err := s.Render()
	if err != nil || len(r.Notes) > 0 {
		t.Fatal(err, r.Notes)
	}
	var got []string
	for _, o := range r.Objects {
		line := describe(o)[:len(describe(o))-len("-xxxxx")]
		if n, ok, _ := unstructured.NestedInt64(o.Object, "spec", "template", "spec", "simulated", "startupMilliseconds"); ok {
			line += fmt.Sprintf(" that starts in %d ms", n)
		}
		got = append(got, line)
	}
	want := []string{
		"LocalCluster ns/demo", "LocalMachineTemplate ns/demo", "KubeadmControlPlane ns/demo",
		"KubeadmConfigTemplate ns/demo-md-0", "LocalMachineTemplate ns/demo-md-0 that starts in 7 ms", "MachineDeployment ns/demo-md-0",
		"KubeadmConfig ns/demo-mp-0", "LocalMachinePool ns/demo-mp-0", "MachinePool ns/demo-mp-0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFilesOfAnOldVersionAreRenderedAlike: Cluster and class, and templates that
// the class names by another version than they are written at.
func TestFilesOfAnOldVersionAreRenderedAlike(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/v1beta1.yaml")
	if err != nil {
		t.Fatal(err)
	}
	old, err := template.Objects(text)
	if err != nil {
		t.Fatal(err)
	}
	templates := slices.DeleteFunc(files(t), func(u *unstructured.Unstructured) bool { return isCore(u, "Cluster") || isCore(u, "ClusterClass") })
	const kubeadm = "controlplane.cluster.x-k8s.io/v1beta"
	for name, tc := range map[string]struct {
		is   []*unstructured.Unstructured
		want []string // changes of what is the same in v1beta2
	}{
		"Cluster and class":             {append(old, templates...), nil},
		"a template written at v1beta1": {files(t, kubeadm+"2\nkind", kubeadm+"1\nkind"), nil},
		"a template named by v1beta1": {
			files(t, kubeadm+"2, kind", kubeadm+"1, kind"),
			[]string{kubeadm + "2", kubeadm + "1", "{encryptionAlgorithm", "{apiServer: {}, controllerManager: {}, dns: {}, etcd: {}, networking: {}, scheduler: {}, encryptionAlgorithm"},
		},
	} {
		var made [2][]*unstructured.Unstructured
		for i, objects := range [][]*unstructured.Unstructured{files(t, tc.want...), tc.is} {
			s, err := Read(objects, "ns", nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			r, err := s.Render()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			made[i] = r.Objects
		}
		if diff := cmp.Diff(made[0], made[1]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestWhatCannotBeRenderedIsNamed(t *testing.T) {
	t.Parallel()
	for want, changes := range map[string][]string{
		"there are 0 Clusters with spec.topology: give one":                                                                              {"topology:", "paused: false\n  topologyy:"},
		"names ClusterClass ns/big, which is not there: give a file with it":                                                             {"classRef: {name: small}", "classRef: {name: big}"},
		"ClusterClass ns/small names LocalClusterTemplate ns/tiny, which is not there: give a file with it":                              {"LocalClusterTemplate, name: small", "LocalClusterTemplate, name: tiny"},
		"Cluster ns/demo: its apiVersion is cluster.x-k8s.io/v1alpha4: write it as cluster.x-k8s.io/v1beta2":                             {"cluster.x-k8s.io/v1beta2\nkind: Cluster\n", "cluster.x-k8s.io/v1alpha4\nkind: Cluster\n"},
		`Cluster ns/demo: strict decoding error: unknown field "spec.topology.classRef"`:                                                 {"cluster.x-k8s.io/v1beta2\nkind: Cluster\n", "cluster.x-k8s.io/v1beta1\nkind: Cluster\n"},
		"LocalClusterTemplate ns/small: its apiVersion is infrastructure.capstan.dev/v1: write it as infrastructure.capstan.dev/v1beta2": {"infrastructure.capstan.dev/v1beta2\nkind: LocalClusterTemplate", "infrastructure.capstan.dev/v1\nkind: LocalClusterTemplate"},
		`Cluster ns/demo: strict decoding error: unknown field "spec.topology.verzion"`:                                                  {"version: v1.35.0", "verzion: v1.35.0"},
		`Cluster ns/demo: spec.topology.version: Invalid value: "v1.35": must be a semantic version`:                                     {"version: v1.35.0", "version: '1.35'"},
		"Cluster ns/demo: spec.topology.version: Required value: say which version of Kubernetes":                                        {"version: v1.35.0", "version: ''"},
		`variables[startup].value: Invalid value: "string"`:                                                                              {"version: v1.35.0", "version: v1.35.0\n    variables: [{name: startup, value: x}]"},
		"MachineDeployment md-0 of the topology: ClusterClass ns/small has no class \"huge\"":                                            {"{class: worker, name: md-0", "{class: huge, name: md-0"},
		`patch "startup": its variables are discovered by extension vars.example, which can only be asked`:                               {"startup\n    definitions:", "startup\n    external: {discoverVariablesExtension: vars.example}\n  - name: other\n    definitions:"},
		`patch "startup" is made by extension make.example, which can only be asked at a management plane`:                               {"startup\n    definitions:", "startup\n    external: {generatePatchesExtension: make.example}\n  - name: other\n    definitions:"},
		"CustomResourceDefinition kubeadmcontrolplanes.controlplane.cluster.x-k8s.io: no label cluster.x-k8s.io/v1beta2":                 {"apiVersion: cluster.x-k8s.io/v1beta2\nkind: ClusterClass", "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: kubeadmcontrolplanes.controlplane.cluster.x-k8s.io}\n---\napiVersion: cluster.x-k8s.io/v1beta2\nkind: ClusterClass"},
	} {
		s, err := Read(files(t, changes...), "ns", nil)
		if err == nil {
			_, err = s.Render()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// planeWith is a management cluster with the Cluster that files render, and other
// objects.
func planeWith(t *testing.T, others ...client.Object) *Plane {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(addToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []schema.GroupVersionKind{
		{Group: "infrastructure.capstan.dev", Version: "v1beta2", Kind: "LocalCluster"}, {Group: "infrastructure.capstan.dev", Version: "v1beta2", Kind: "LocalMachineTemplate"},
		{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2", Kind: "KubeadmControlPlane"}, {Group: "bootstrap.cluster.x-k8s.io", Version: "v1beta2", Kind: "KubeadmConfigTemplate"},
		{Group: "bootstrap.cluster.x-k8s.io", Version: "v1beta2", Kind: "KubeadmConfig"}, {Group: "infrastructure.capstan.dev", Version: "v1beta2", Kind: "LocalMachinePool"},
	} {
		scheme.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(others...).WithReturnManagedFields().Build()
	s, err := Read(files(t), "ns", nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Cluster.UID = "demo"
	r, err := s.Render()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range r.Objects {
		gvk := o.GroupVersionKind()
		ref := clusterv1.ContractVersionedObjectReference{APIGroup: gvk.Group, Kind: gvk.Kind, Name: o.GetName()}
		switch o.GetKind() {
		case "LocalCluster":
			s.Cluster.Spec.InfrastructureRef = ref
		case "KubeadmControlPlane":
			s.Cluster.Spec.ControlPlaneRef = ref
		}
		if err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner(manager)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Create(t.Context(), s.Cluster); err != nil {
		t.Fatal(err)
	}
	for _, o := range r.Objects {
		machines, of := []string(nil), map[string]string{clusterv1.ClusterNameLabel: "demo"}
		switch o.GetKind() {
		case "KubeadmControlPlane":
			machines, of[clusterv1.MachineControlPlaneLabel] = []string{"c0"}, ""
		case "MachineDeployment":
			machines, of[clusterv1.MachineDeploymentNameLabel] = []string{"w1", "w0"}, o.GetName()
		case "MachinePool":
			machines, of[clusterv1.MachinePoolNameLabel] = []string{"p0"}, o.GetName()
		}
		for _, m := range machines {
			if err := c.Create(t.Context(), &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: m, Labels: of}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io", Labels: map[string]string{"cluster.x-k8s.io/v1beta2": "v1beta2"}}}
	if err := c.Create(t.Context(), definition); err != nil {
		t.Fatal(err)
	}
	// What the fake would write anyway.
	dry := func(given []string) {
		if !slices.Equal(given, []string{metav1.DryRunAll}) {
			t.Error("something is written")
		}
	}
	return &Plane{interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			dry((&client.CreateOptions{}).ApplyOptions(opts).DryRun)
			return c.Create(ctx, o, opts...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			dry((&client.ApplyOptions{}).ApplyOptions(opts).DryRun)
			return c.Apply(ctx, o, opts...)
		},
	})}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		changes []string
		want    []string
	}{
		"rest": {nil, nil},
		"replicas": {[]string{"name: md-0, replicas: 2", "name: md-0, replicas: 3"}, []string{
			"change MachineDeployment ns/demo-md-0-*: spec.replicas: 2 -> 3",
		}},
		"a label": {[]string{"name: md-0,", "name: md-0, metadata: {labels: {example.com/a: b}},"}, []string{
			`change MachineDeployment ns/demo-md-0-*: metadata.labels[example.com/a]: none -> "b", spec.template.metadata.labels[example.com/a]: none -> "b"`,
		}},
		"a variable": {[]string{"version: v1.35.0", "version: v1.35.0\n    variables: [{name: startup, value: 7}]"}, []string{
			"make LocalMachineTemplate ns/demo-md-0-*: in place of demo-md-0-*, spec.template.spec.simulated.startupMilliseconds: 5 -> 7",
			`change MachineDeployment ns/demo-md-0-*: spec.template.spec.infrastructureRef.name: "demo-md-0-*" -> "demo-md-0-*" (w0, w1)`,
		}},
		"a version": {[]string{"version: v1.35.0", "version: v1.36.0"}, []string{
			`change KubeadmControlPlane ns/demo-*: spec.version: "v1.35.0" -> "v1.36.0" (c0)`,
			`change MachineDeployment ns/demo-md-0-*: spec.template.spec.version: "v1.35.0" -> "v1.36.0" (w0, w1)`,
			`change MachinePool ns/demo-mp-0-*: spec.template.spec.version: "v1.35.0" -> "v1.36.0" (p0)`,
		}},
		"versions on the way": {[]string{"version: v1.35.0", "version: v1.37.0", "  variables:\n", "  kubernetesVersions: [v1.35.0, v1.36.0, v1.37.0]\n  variables:\n", "name: mp-0, replicas: 1", "name: mp-0, replicas: 1"}, []string{
			`change KubeadmControlPlane ns/demo-*: spec.version: "v1.35.0" -> "v1.37.0" (c0)`,
			`change MachineDeployment ns/demo-md-0-*: spec.template.spec.version: "v1.35.0" -> "v1.37.0" (w0, w1)`,
			`change MachinePool ns/demo-mp-0-*: spec.template.spec.version: "v1.35.0" -> "v1.37.0" (p0)`,
			"note the upgrade takes the control plane through v1.36.0, v1.37.0 and workers through v1.37.0; shown is its end",
		}},
		"the template of a control plane": {[]string{"encryptionAlgorithm: ECDSA-P256", "encryptionAlgorithm: RSA-4096"}, []string{
			`change KubeadmControlPlane ns/demo-*: spec.kubeadmConfigSpec.clusterConfiguration.encryptionAlgorithm: "ECDSA-P256" -> "RSA-4096" (c0)`,
		}},
		"what reaches machines in place": {[]string{"controlPlane: {replicas: 1}", "controlPlane: {replicas: 3, deletion: {nodeDrainTimeoutSeconds: 5}}"}, []string{
			"change KubeadmControlPlane ns/demo-*: spec.machineTemplate.spec.deletion: none -> {\"nodeDrainTimeoutSeconds\":5}, spec.replicas: 1 -> 3",
		}},
		"a pool": {[]string{"      template:\n        spec:\n          simulated: {}", "      template:\n        spec:\n          simulated: {startupMilliseconds: 3}"}, []string{
			"change LocalMachinePool ns/demo-mp-0-*: spec.template.spec.simulated.startupMilliseconds: none -> 3 (p0)",
		}},
		"another group, and a health check": {[]string{"name: md-0,", "name: md-1,", "controlPlane: {replicas: 1}", "controlPlane: {replicas: 1, healthCheck: {checks: {nodeStartupTimeoutSeconds: 900}}}"}, []string{
			"make MachineHealthCheck ns/demo-*",
			"make KubeadmConfigTemplate ns/demo-md-1-*", "make LocalMachineTemplate ns/demo-md-1-*", "make MachineDeployment ns/demo-md-1-*",
			"delete MachineDeployment ns/demo-md-0-* (w0, w1)",
		}},
		"another Cluster": {[]string{"name: demo", "name: other", "      machinePools:\n      - {class: pool, name: mp-0, replicas: 1}\n", ""}, []string{
			"make LocalCluster ns/other-*", "make LocalMachineTemplate ns/other-*", "make KubeadmControlPlane ns/other-*",
			"make KubeadmConfigTemplate ns/other-md-0-*", "make LocalMachineTemplate ns/other-md-0-*", "make MachineDeployment ns/other-md-0-*",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := planeWith(t)
			s, err := Read(files(t, tc.changes...), "ns", p.Lookup(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			c, err := p.Compare(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, change := range c.Changes {
				line := fmt.Sprintf("%s %s", change.Verb, change.Object)
				if len(change.Details) > 0 {
					line += ": " + strings.Join(change.Details, ", ")
				}
				if len(change.Machines) > 0 {
					line += " (" + strings.Join(change.Machines, ", ") + ")"
				}
				got = append(got, random.ReplaceAllString(line, "$1-*"))
			}
			for _, n := range c.Notes {
				got = append(got, "note "+n)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// random matches the ends of the names of objects.
var random = regexp.MustCompile(`\b((?:demo|other)(?:-m[dp]-[01])?)-[a-z0-9]{5}\b`)
