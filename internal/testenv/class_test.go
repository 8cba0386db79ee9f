// SPDX-License-Identifier: Apache-2.0

package testenv_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/testenv"
)

const (
	hosts     = "apiVersion: infrastructure.capstan.dev/v1beta2\nkind: LocalClusterTemplate\nmetadata: {name: hosts}\nspec: {template: {spec: {simulated: {}}}}\n"
	host      = "apiVersion: infrastructure.capstan.dev/v1beta2\nkind: LocalMachineTemplate\nmetadata: {name: host}\nspec: {template: {spec: {simulated: {}}}}\n"
	controls  = "apiVersion: controlplane.cluster.x-k8s.io/v1beta2\nkind: KubeadmControlPlaneTemplate\nmetadata: {name: controls}\nspec: {template: {spec: {kubeadmConfigSpec: {format: cloud-config}}}}\n"
	someClass = core + `
kind: ClusterClass
metadata: {name: class}
spec:
  infrastructure: {templateRef: {apiVersion: infrastructure.capstan.dev/v1beta2, kind: LocalClusterTemplate, name: hosts}}
  controlPlane:
    templateRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlaneTemplate, name: controls}
    machineInfrastructure: {templateRef: {apiVersion: infrastructure.capstan.dev/v1beta2, kind: LocalMachineTemplate, name: host}}
  variables:
  - name: size
    required: true
    schema: {openAPIV3Schema: {type: object, default: {}, properties: {cpu: {type: integer, default: 2, x-kubernetes-validations: [{rule: "self <= 8", message: more than the hosts have}]}}}}
`
	managed = core + "kind: Cluster\nmetadata: {name: some}\nspec: {topology: {classRef: {name: class}, version: 1.34.1}}\n"
)

// newClass creates a class, which is ready when this returns.
func newClass(t *testing.T, env *testenv.Env) *unstructured.Unstructured {
	t.Helper()
	for _, text := range []string{hosts, host, controls, someClass} {
		if err := env.Client.Create(t.Context(), read(t, env, text)); err != nil {
			t.Fatal(err)
		}
	}
	return ready(t, env, read(t, env, someClass))
}

// ready waits until all of a class is in order.
func ready(t *testing.T, env *testenv.Env, class *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	testenv.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(class), class); err != nil {
			return err
		}
		if observed, _, _ := unstructured.NestedInt64(class.Object, "status", "observedGeneration"); observed != class.GetGeneration() {
			return fmt.Errorf("it observes generation %d: %v", observed, class.Object["status"])
		}
		return nil
	})
	return class
}

func TestAClassIsReadyAndDefaultsWhatADryRunAsksFor(t *testing.T) {
	t.Parallel()
	env := testenv.Start(t)
	class := newClass(t, env)
	if _, ok, _ := unstructured.NestedSlice(class.Object, "status", "variables"); !ok {
		t.Errorf("status %v", class.Object["status"])
	}
	template := read(t, env, host)
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(template), template); err != nil || len(template.GetOwnerReferences()) != 1 {
		t.Errorf("error %v, owners %v", err, template.GetOwnerReferences())
	}
	// The cache of admission may be behind.
	testenv.Eventually(t, func() error {
		c := read(t, env, managed)
		if err := env.Client.Create(t.Context(), c, client.DryRunAll); err != nil {
			return err
		}
		got, _, _ := unstructured.NestedMap(c.Object, "spec", "topology")
		if want := "map[classRef:map[name:class] variables:[map[name:size value:map[cpu:2]]] version:v1.34.1]"; fmt.Sprint(got) != want {
			return fmt.Errorf("topology %v, want %s", got, want)
		}
		return nil
	})
	greedy := read(t, env, strings.Replace(managed, "version:", "variables: [{name: size, value: {cpu: 9}}], version:", 1))
	err := env.Client.Create(t.Context(), greedy, client.DryRunAll)
	if want := "spec.topology.variables[size].value.cpu: Invalid value: 9: more than the hosts have"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
	if err := env.Client.Delete(t.Context(), class); err != nil {
		t.Errorf("delete: %v", err)
	}
}

func TestClassesThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	env := testenv.Start(t)
	const rules = "x-kubernetes-validations: [{rule: "
	tests := map[string]struct{ from, to, want string }{
		"a rule that costs too much": {"{type: integer, default: 2, " + rules, "{type: array, items: {type: array, items: {type: string}}, " + rules + "'self.all(a, a.all(b, self.all(c, c.all(d, d == b))))'}, {rule: ", "spec.variables[size].schema.openAPIV3Schema.properties[cpu].x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget"},
		"no CEL":                     {`default: 2, x-kubernetes-validations: [{rule: "self <= 8"`, `x-kubernetes-validations: [{rule: "self <="`, "spec.variables[size].schema.openAPIV3Schema.properties[cpu].x-kubernetes-validations[0].rule: Invalid value: \"self <=\": compilation failed"},
		"an unknown variable":        {"  variables:", "  patches: [{name: p, definitions: [{selector: {apiVersion: infrastructure.capstan.dev/v1beta2, kind: LocalMachineTemplate, matchResources: {controlPlane: true}}, jsonPatches: [{op: add, path: /spec/a, valueFrom: {variable: color}}]}]}]\n  variables:", `spec.patches[p].definitions[0].jsonPatches[0].valueFrom.variable: Invalid value: "color": there is no such variable`},
		"a patch of nothing":         {"  variables:", "  patches: [{name: p, definitions: [{selector: {apiVersion: infrastructure.capstan.dev/v1beta2, kind: LocalMachineTemplate, matchResources: {infrastructureCluster: true}}, jsonPatches: [{op: remove, path: /spec/a}]}]}]\n  variables:", "spec.patches[p].definitions[0].selector.matchResources.infrastructureCluster: Invalid value: true: there is no LocalMachineTemplate"},
		"no template":                {"LocalClusterTemplate", "LocalCluster", "spec.infrastructure.templateRef: Invalid value"},
	}
	for name, tc := range tests {
		err := env.Client.Create(t.Context(), read(t, env, strings.Replace(someClass, tc.from, tc.to, 1)))
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %s", name, err, tc.want)
		}
	}
}

// TestClassReportsErrorsUntilCorrected: only the watch of its template
// triggers the reconcile.
func TestClassReportsErrorsUntilCorrected(t *testing.T) {
	t.Parallel()
	env := testenv.Start(t)
	for _, text := range []string{hosts, controls, someClass} {
		if err := env.Client.Create(t.Context(), read(t, env, text)); err != nil {
			t.Fatal(err)
		}
	}
	class := read(t, env, someClass)
	says := func(want string) {
		t.Helper()
		testenv.Eventually(t, func() error {
			if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(class), class); err != nil {
				return err
			}
			if got := fmt.Sprint(class.Object["status"]); !strings.Contains(got, want) {
				return errors.New(got)
			}
			return nil
		})
	}
	says("spec.controlPlane.machineInfrastructure.templateRef: there is no LocalMachineTemplate " + env.Namespace + "/host: create it, or correct the reference")
	if err := env.Client.Create(t.Context(), read(t, env, host)); err != nil {
		t.Fatal(err)
	}
	says("observedGeneration:1 variables:")
	if err := env.Client.Patch(t.Context(), class, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}`))); err != nil {
		t.Fatal(err)
	}
	says("type:Paused")
}
