// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

const world = `
- apiVersion: cluster.x-k8s.io/v1beta2
  kind: Cluster
  metadata: {name: managed, namespace: ns}
  spec:
    topology:
      version: v1.33.1
      controlPlane: {replicas: 1}
      workers: {machineDeployments: [{name: other, replicas: 9}, {name: a, replicas: 1}]}
- apiVersion: cluster.x-k8s.io/v1beta2
  kind: Cluster
  metadata: {name: plain, namespace: ns}
  spec: {controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: plain}}
- apiVersion: cluster.x-k8s.io/v1beta2
  kind: MachineDeployment
  metadata: {name: md, namespace: ns, generation: 2, labels: {cluster.x-k8s.io/cluster-name: plain}}
  spec: {clusterName: plain, replicas: 3, template: {spec: {version: v1.32.0}}}
  status: {observedGeneration: 2, replicas: 3, upToDateReplicas: 3, availableReplicas: 3}
- apiVersion: cluster.x-k8s.io/v1beta2
  kind: MachineDeployment
  metadata: {name: owned, namespace: ns, labels: {cluster.x-k8s.io/cluster-name: managed, topology.cluster.x-k8s.io/owned: "", topology.cluster.x-k8s.io/deployment-name: a}}
  spec: {clusterName: managed, replicas: 1}
- apiVersion: cluster.x-k8s.io/v1beta2
  kind: MachineDeployment
  metadata: {name: later, namespace: ns, generation: 1}
  spec: {paused: true, replicas: 3, rollout: {after: "2026-01-03T00:00:00Z"}}
  status: {observedGeneration: 1, replicas: 4, upToDateReplicas: 1, availableReplicas: 3}
- apiVersion: cluster.x-k8s.io/v1beta2
  kind: MachineDeployment
  metadata: {name: planned, namespace: ns}
  spec: {rollout: {after: "2026-01-03T00:00:00Z"}}
- apiVersion: cluster.x-k8s.io/v1beta2
  kind: MachineSet
  metadata: {name: md-1, namespace: ns, ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineDeployment, name: md, uid: u, controller: true}]}
  spec: {replicas: 3}
- apiVersion: controlplane.cluster.x-k8s.io/v1beta2
  kind: KubeadmControlPlane
  metadata: {name: plain, namespace: ns, generation: 1}
  spec: {replicas: 1, version: v1.33.1}
  status: {observedGeneration: 1, version: v1.33.1, replicas: 1, upToDateReplicas: 1, availableReplicas: 1}
`

func newClient(t *testing.T, docs string) *Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := controlplanev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var list []map[string]any
	if err := yaml.Unmarshal([]byte(docs), &list); err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(scheme.PrioritizedVersionsAllGroups())
	for gvk := range scheme.AllKnownTypes() {
		mapper.Add(gvk, meta.RESTScopeNamespace)
	}
	b := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper)
	for _, o := range list {
		b.WithObjects(&unstructured.Unstructured{Object: o})
	}
	return New(b.Build())
}

func field(t *testing.T, c *Client, o Object, path ...string) any {
	t.Helper()
	obj, err := c.get(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	v, _, _ := unstructured.NestedFieldNoCopy(obj.Object, path...)
	return v
}

func object(t *testing.T, text string) Object {
	t.Helper()
	o, err := Parse(text, "ns", "Cluster", "MachineDeployment", "MachineSet", "MachinePool", "KubeadmControlPlane")
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestParse(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ text, want, err string }{
		"a kind":               {text: "machinedeployment/md", want: "MachineDeployment ns/md"},
		"its plural, any case": {text: "MachineDeployments/md", want: "MachineDeployment ns/md"},
		"its short name":       {text: "kcp/x", want: "KubeadmControlPlane ns/x"},
		"with its group":       {text: "kubeadmcontrolplane.controlplane.cluster.x-k8s.io/x", want: "KubeadmControlPlane ns/x"},
		"none allowed":         {text: "machineset/x", err: `kind "machineset" is not one of machinedeployment, kubeadmcontrolplane`},
		"a typing error":       {text: "machinedeploymnet/x", err: `did you mean "machinedeployment"?`},
		"no name":              {text: "machinedeployment/", err: "is not KIND/NAME"},
		"no kind":              {text: "md", err: "is not KIND/NAME"},
		"too much":             {text: "md/a/b", err: "is not KIND/NAME"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Parse(tc.text, "ns", "MachineDeployment", "KubeadmControlPlane")
			if tc.err == "" && (err != nil || got.String() != tc.want) || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("got %s, %v; want %s, error %q", got, err, tc.want, tc.err)
			}
		})
	}
}

// TestResourceIsThatOfTheKind for completion, which lists it.
func TestResourceIsThatOfTheKind(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{
		"Cluster": "cluster.x-k8s.io/v1beta2, Resource=clusters", "KubeadmControlPlane": "controlplane.cluster.x-k8s.io/v1beta2, Resource=kubeadmcontrolplanes",
		"LocalMachinePool": "infrastructure.capstan.dev/v1beta2, Resource=localmachinepools", "Strange": "/, Resource=stranges",
	} {
		if got := Resource(kind).String(); got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
}

func TestPauseResumeAndRestart(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	steps := func(c *Client, verb string, o Object) error {
		switch verb {
		case "pause":
			return c.Pause(t.Context(), o)
		case "resume":
			return c.Resume(t.Context(), o)
		}
		return c.Restart(t.Context(), o, now)
	}
	tests := map[string]struct {
		object string
		verbs  string
		path   string
		want   any
		err    string
	}{
		"pause a MachineDeployment":       {object: "md/md", verbs: "pause", path: "spec.paused", want: true},
		"twice":                           {object: "md/md", verbs: "pause pause", err: "MachineDeployment ns/md is paused already"},
		"and resume":                      {object: "md/md", verbs: "pause resume", path: "spec.paused"},
		"resume what is not paused":       {object: "md/md", verbs: "resume", err: "MachineDeployment ns/md is not paused"},
		"pause a control plane":           {object: "kcp/plain", verbs: "pause", path: "metadata.annotations", want: map[string]any{"cluster.x-k8s.io/paused": "true"}},
		"and resume it":                   {object: "kcp/plain", verbs: "pause resume", path: "metadata.annotations"},
		"pause a Cluster":                 {object: "cluster/plain", verbs: "pause", path: "spec.paused", want: true},
		"restart":                         {object: "kcp/plain", verbs: "restart restart", path: "spec.rollout.after", want: "2026-01-02T03:04:05Z"},
		"restart what is paused":          {object: "md/later", verbs: "restart", err: "is paused: resume it first"},
		"restart with a planned rollout":  {object: "md/planned", verbs: "restart", err: "will be rolled out at 2026-01-03T00:00:00Z"},
		"one that is not there":           {object: "md/gone", verbs: "pause", err: "there is no MachineDeployment gone in namespace ns"},
		"a failure leaves all as it was":  {object: "md/later", verbs: "resume", path: "spec.replicas", want: int64(3)},
		"an annotation of others remains": {object: "kcp/plain", verbs: "pause", path: "spec.version", want: "v1.33.1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, o, err := newClient(t, world), object(t, tc.object), error(nil)
			for _, verb := range strings.Fields(tc.verbs) {
				err = steps(c, verb, o)
			}
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, field(t, c, o, strings.Split(tc.path, ".")...)); d != "" {
				t.Errorf("%s (-want +got):\n%s", tc.path, d)
			}
		})
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"md/md":    "MachineDeployment ns/md has rolled out: 3 machines",
		"md/later": "MachineDeployment ns/later is paused, and not rolled out: 2 of 3 machines to be up to date",
		"md/owned": "MachineDeployment ns/owned is waiting for 1 of 1 machines to be up to date",
	} {
		got, err := newClient(t, world).Status(t.Context(), object(t, text))
		if err != nil || got.Text != want {
			t.Errorf("%s: got %q, %v; want %q", text, got.Text, err, want)
		}
	}
}

func TestScale(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		object string
		opts   ScaleOptions
		text   string
		// Replicas afterwards: of the object, and of the topology's workers.
		want      int64
		inCluster []int64
		err       string
	}{
		"an object":                       {object: "md/md", opts: ScaleOptions{Replicas: 5}, text: "MachineDeployment ns/md is scaled from 3 to 5", want: 5, inCluster: []int64{9, 1}},
		"that has as many as was said":    {object: "md/md", opts: ScaleOptions{Replicas: 5, Current: new(int32(3))}, text: "MachineDeployment ns/md is scaled from 3 to 5", want: 5, inCluster: []int64{9, 1}},
		"that has not":                    {object: "md/md", opts: ScaleOptions{Replicas: 5, Current: new(int32(4))}, err: "is asked for 3 machines, not for 4: nothing was changed", want: 3, inCluster: []int64{9, 1}},
		"to see whether it could be":      {object: "md/md", opts: ScaleOptions{Replicas: 5, DryRun: true}, text: "MachineDeployment ns/md is scaled from 3 to 5", want: 3, inCluster: []int64{9, 1}},
		"of a topology: the topology":     {object: "md/owned", opts: ScaleOptions{Replicas: 4}, text: "MachineDeployment ns/owned is scaled from 1 to 4: spec.topology.workers.machineDeployments[1].replicas of Cluster ns/managed is its source, and is changed", want: 1, inCluster: []int64{9, 4}},
		"of a topology, whether it could": {object: "md/owned", opts: ScaleOptions{Replicas: 4, DryRun: true}, text: "MachineDeployment ns/owned is scaled from 1 to 4: spec.topology.workers.machineDeployments[1].replicas of Cluster ns/managed is its source, and is changed", want: 1, inCluster: []int64{9, 1}},
		"of a MachineDeployment":          {object: "ms/md-1", opts: ScaleOptions{Replicas: 4}, err: "belongs to MachineDeployment md, which says how many machines it has: scale that one", want: 3, inCluster: []int64{9, 1}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, o := newClient(t, world), object(t, tc.object)
			text, err := c.Scale(t.Context(), o, tc.opts)
			if err == nil && text != tc.text || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("got %q, %v; want %q, error %q", text, err, tc.text, tc.err)
			}
			if got := field(t, c, o, "spec", "replicas"); got != tc.want {
				t.Errorf("%d replicas, want %d", got, tc.want)
			}
			var inCluster []int64
			for _, w := range field(t, c, object(t, "cluster/managed"), "spec", "topology", "workers", "machineDeployments").([]any) {
				inCluster = append(inCluster, w.(map[string]any)["replicas"].(int64))
			}
			if d := cmp.Diff(tc.inCluster, inCluster); d != "" {
				t.Errorf("topology (-want +got):\n%s", d)
			}
		})
	}
}

func TestPlanUpgrade(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		cluster, version string
		change           [2]string
		want             []string
		err              string
	}{
		"a topology":                    {cluster: "managed", version: "v1.34.0", want: []string{"Cluster ns/managed: its topology, and by that the control plane and then the workers, from v1.33.1 to v1.34.0"}},
		"a topology that has it":        {cluster: "managed", version: "v1.33.1"},
		"a topology, further":           {cluster: "managed", version: "v1.35.0", want: []string{"Cluster ns/managed: its topology, and by that the control plane and then the workers, from v1.33.1 to v1.35.0"}},
		"a topology, back":              {cluster: "managed", version: "v1.33.0", err: "version v1.33.1 is newer than v1.33.0: nothing is downgraded"},
		"the control plane first":       {cluster: "plain", version: "v1.34.0", want: []string{"KubeadmControlPlane ns/plain: the control plane from v1.33.1 to v1.34.0", "MachineDeployment ns/md: workers from v1.32.0 to v1.34.0 (after the control plane)"}},
		"what is left is the workers":   {cluster: "plain", version: "v1.33.1", want: []string{"MachineDeployment ns/md: workers from v1.32.0 to v1.33.1"}},
		"while the control plane waits": {cluster: "plain", version: "v1.33.1", change: [2]string{"version: v1.33.1, replicas: 1, upToDateReplicas: 1", "version: v1.33.1, replicas: 2, upToDateReplicas: 0"}, want: []string{"MachineDeployment ns/md: workers from v1.32.0 to v1.33.1 (after the control plane)"}},
		"a control plane, further":      {cluster: "plain", version: "v1.35.0", err: "KubeadmControlPlane ns/plain: from v1.33.1 to v1.35.0 skips a minor version: upgrade to v1.34 first"},
		"workers that are newer":        {cluster: "plain", version: "v1.33.1", change: [2]string{"v1.32.0", "v1.34.0"}, err: "MachineDeployment ns/md: version v1.34.0 is newer than v1.33.1"},
		"no version":                    {cluster: "plain", version: "latest", err: `version "latest" is not one such as v1.34.1`},
		"no cluster":                    {cluster: "gone", version: "v1.34.0", err: "there is no Cluster gone in namespace ns"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, strings.Replace(world, tc.change[0], tc.change[1], 1))
			steps, err := c.PlanUpgrade(t.Context(), client.ObjectKey{Namespace: "ns", Name: tc.cluster}, tc.version)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("error %v, want %q", err, tc.err)
			}
			var got []string
			for _, s := range steps {
				if s.After != "" {
					s.Text += " (after " + s.After + ")"
				}
				got = append(got, s.Text)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}
