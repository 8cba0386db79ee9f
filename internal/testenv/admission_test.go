// SPDX-License-Identifier: Apache-2.0

package testenv_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/testenv"
)

func read(t *testing.T, env *testenv.Env, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	if u.GetKind() != "ExtensionConfig" {
		u.SetNamespace(env.Namespace)
	}
	if u.GetName() == "" {
		u.SetName("some")
	}
	return u
}

const (
	core     = "apiVersion: cluster.x-k8s.io/v1beta2\n"
	kcp      = "apiVersion: controlplane.cluster.x-k8s.io/v1beta2\nkind: KubeadmControlPlane\n"
	machines = "{spec: {clusterName: c, version: 1.34.1, bootstrap: {dataSecretName: s}, infrastructureRef: {apiGroup: g.io, kind: KTemplate, name: thing}}}"
	infra    = "machineTemplate: {spec: {infrastructureRef: {apiGroup: g.io, kind: K, name: thing}}}"
)

func TestWhatIsLeftOutIsDefaulted(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ object, at, want string }{
		"the label of a Machine":    {core + "kind: Machine\nspec: {clusterName: c, bootstrap: {dataSecretName: s}, infrastructureRef: {apiGroup: g.io, kind: K, name: thing}}\n", "metadata.labels", "cluster.x-k8s.io/cluster-name: c\n"},
		"the timeout of a Machine":  {core + "kind: Machine\nspec: {clusterName: c, bootstrap: {dataSecretName: s}, infrastructureRef: {apiGroup: g.io, kind: K, name: thing}}\n", "spec.deletion", "nodeDeletionTimeoutSeconds: 10\n"},
		"the selector of a set":     {core + "kind: MachineSet\nspec: {clusterName: c, selector: {matchLabels: {}}, template: " + machines + "}\n", "spec.selector", "matchLabels:\n  cluster.x-k8s.io/set-name: some\n"},
		"the strategy of a group":   {core + "kind: MachineDeployment\nspec: {clusterName: c, selector: {matchLabels: {}}, template: " + machines + "}\n", "spec.rollout", "strategy:\n  rollingUpdate:\n    maxSurge: 1\n    maxUnavailable: 0\n  type: RollingUpdate\n"},
		"the replicas of a group":   {core + "kind: MachineDeployment\nspec: {clusterName: c, selector: {matchLabels: {}}, template: " + machines + "}\n", "spec.replicas", "1\n"},
		"the timeouts of a check":   {core + "kind: MachineHealthCheck\nspec: {clusterName: c, selector: {matchLabels: {a: b}}}\n", "spec.checks", "nodeStartupTimeoutSeconds: 600\n"},
		"the strategy of a plane":   {kcp + "spec: {version: 1.34.1, " + infra + "}\n", "spec.rollout", "strategy:\n  rollingUpdate:\n    maxSurge: 1\n  type: RollingUpdate\n"},
		"the version of a plane":    {kcp + "spec: {version: 1.34.1, " + infra + "}\n", "spec.version", "v1.34.1\n"},
		"the strategy of resources": {"apiVersion: addons.cluster.x-k8s.io/v1beta2\nkind: ClusterResourceSet\nspec: {clusterSelector: {matchLabels: {a: b}}, resources: [{kind: Secret, name: s}]}\n", "spec.strategy", "ApplyOnce\n"},
		"the port of an extension":  {"apiVersion: runtime.cluster.x-k8s.io/v1beta2\nkind: ExtensionConfig\nspec: {clientConfig: {service: {name: s, namespace: elsewhere}}}\n", "spec.clientConfig.service.port", "443\n"},
	}
	env := testenv.Start(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := read(t, env, tc.object)
			if err := env.Client.Create(t.Context(), u, client.DryRunAll, client.FieldValidation("Strict")); err != nil {
				t.Fatal(err)
			}
			value, _, err := unstructured.NestedFieldNoCopy(u.Object, strings.Split(tc.at, ".")...)
			if err != nil {
				t.Fatal(err)
			}
			got, err := yaml.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.at, diff)
			}
		})
	}
}

func TestWhatTheRulesForbidIsRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ object, want string }{
		"a topology":               {core + "kind: Cluster\nspec: {topology: {classRef: {name: k}, version: latest}}\n", `spec.topology.version: Invalid value: "vlatest"`},
		"a range of addresses":     {core + "kind: Cluster\nspec: {controlPlaneRef: {apiGroup: g.io, kind: K, name: thing}, clusterNetwork: {pods: {cidrBlocks: [10.0.0.0]}}}\n", `spec.clusterNetwork.pods.cidrBlocks[0]: Invalid value: "10.0.0.0"`},
		"a set of other machines":  {core + "kind: MachineSet\nspec: {clusterName: c, selector: {matchLabels: {a: b}}, template: " + machines + "}\n", "spec.template.metadata.labels: Invalid value"},
		"no version":               {kcp + "spec: {version: latest, " + infra + "}\n", `spec.version: Invalid value: "vlatest"`},
		"an even control plane":    {kcp + "spec: {version: v1.34.1, replicas: 2, " + infra + "}\n", "spec.replicas: Forbidden: 2 is even"},
		"a file twice":             {"apiVersion: bootstrap.cluster.x-k8s.io/v1beta2\nkind: KubeadmConfig\nspec: {files: [{path: /a, content: x}, {path: /a, content: x}]}\n", `spec.files[1].path: Duplicate value: "/a"`},
		"a token of bad form":      {"apiVersion: bootstrap.cluster.x-k8s.io/v1beta2\nkind: KubeadmConfig\nspec: {initConfiguration: {bootstrapTokens: [{token: rubbish}]}}\n", "bootstrap token is not of the form"},
		"a name that is a number":  {core + "kind: Machine\nspec: {clusterName: c, bootstrap: {dataSecretName: s}, infrastructureRef: {apiGroup: g.io, kind: K, name: 7}}\n", `spec.infrastructureRef.name: Invalid value: "integer"`},
		"an extension without TLS": {"apiVersion: runtime.cluster.x-k8s.io/v1beta2\nkind: ExtensionConfig\nspec: {clientConfig: {url: 'http://h'}}\n", "spec.clientConfig.url: Invalid value"},
		"a check of everything":    {core + "kind: MachineHealthCheck\nspec: {clusterName: c, selector: {matchLabels: {}}}\n", "spec.selector: Required value"},
		"an order for skipping":    {core + "kind: MachineDrainRule\nspec: {drain: {behavior: Skip, order: 1}}\n", "spec.drain.order: Invalid value"},
		"no address":               {"apiVersion: ipam.cluster.x-k8s.io/v1beta2\nkind: IPAddress\nspec: {address: here, prefix: 24, claimRef: {name: c}, poolRef: {apiGroup: g.io, kind: P, name: p}}\n", "spec.address: Invalid value"},
	}
	env := testenv.Start(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := env.Client.Create(t.Context(), read(t, env, tc.object), client.DryRunAll, client.FieldValidation("Strict"))
			if !(apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestAControlPlaneIsNotScaledToAnEvenNumber(t *testing.T) {
	t.Parallel()
	env := testenv.Start(t)
	u := read(t, env, kcp+"metadata: {annotations: {cluster.x-k8s.io/paused: ''}}\nspec: {version: v1.34.1, "+infra+"}\n")
	if err := env.Client.Create(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	scale := func(replicas string) error {
		return env.Client.SubResource("scale").Patch(t.Context(), u, client.RawPatch(types.MergePatchType, []byte(`{"spec": {"replicas": `+replicas+`}}`)))
	}
	if err := scale("2"); err == nil || !strings.Contains(err.Error(), "2 is even") {
		t.Errorf("scale to 2: %v", err)
	}
	if err := scale("3"); err != nil {
		t.Errorf("scale to 3: %v", err)
	}
}

func TestATemplateDoesNotChangeAndItsLabelsDo(t *testing.T) {
	t.Parallel()
	env := testenv.Start(t)
	u := read(t, env, "apiVersion: infrastructure.capstan.dev/v1beta2\nkind: LocalMachineTemplate\nspec: {template: {spec: {simulated: {}}}}\n")
	if err := env.Client.Create(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	change := func(patch string) error {
		return env.Client.Patch(t.Context(), u, client.RawPatch(types.MergePatchType, []byte(patch)))
	}
	if err := change(`{"metadata": {"labels": {"a": "b"}}}`); err != nil {
		t.Errorf("label: %v", err)
	}
	if err := change(`{"spec": {"template": {"spec": {"simulated": {"faults": ["NeverBoots"]}}}}}`); err == nil || !strings.Contains(err.Error(), "spec.template.spec: Forbidden: cannot change") {
		t.Errorf("change: %v", err)
	}
}

func TestOnlyWarningsThatHelpReachTheUser(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ object, want string }{
		"our finalizer of a Cluster":       {core + "kind: Cluster\nspec: {infrastructureRef: {apiGroup: g.io, kind: K, name: thing}}\n", ""},
		"our finalizer of a control plane": {kcp + "spec: {version: v1.34.1, " + infra + "}\n", ""},
		"our finalizer of a Machine":       {core + "kind: Machine\nspec: {clusterName: c, bootstrap: {dataSecretName: s}, infrastructureRef: {apiGroup: g.io, kind: K, name: thing}}\n", ""},
		"a finalizer of theirs":            {core + "kind: Cluster\nmetadata: {finalizers: [their.own]}\nspec: {infrastructureRef: {apiGroup: g.io, kind: K, name: thing}}\n", `metadata.finalizers: "their.own": prefer a domain-qualified finalizer name`},
	}
	env := testenv.Start(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, said := heard(t, env)
			if err := c.Create(t.Context(), read(t, env, tc.object), client.DryRunAll); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(said.texts, "\n"); (tc.want == "") != (got == "") || !strings.HasPrefix(got, tc.want) {
				t.Errorf("warnings %q, want %q", got, tc.want)
			}
		})
	}
}

// heard is a client with the warnings that it receives.
func heard(t *testing.T, env *testenv.Env) (client.Client, *warnings) {
	t.Helper()
	cfg, said := rest.CopyConfig(env.Config), &warnings{}
	cfg.WarningHandler = said
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c, said
}

// warnings are those of the calls so far.
type warnings struct{ texts []string }

func (w *warnings) HandleWarningHeader(_ int, _, text string) { w.texts = append(w.texts, text) }
