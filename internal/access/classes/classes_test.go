// SPDX-License-Identifier: Apache-2.0

package classes

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder"
)

const class = "metadata: {namespace: ns, name: x, uid: u, resourceVersion: '1', generation: 1}\nstatus: {observedGeneration: 1, conditions: [{type: VariablesReady, status: 'True', reason: VariablesReady}], variables: [{name: a, definitions: [{from: inline, required: true, schema: {openAPIV3Schema: {type: string}}}]}]}"

func TestGetAClass(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := New(fake.NewClientBuilder().WithScheme(scheme).WithObjects(builder.Parse[clusterv1.ClusterClass](t, class)).Build())
	for name, there := range map[string]bool{"x": true, "y": false} {
		if got, err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: name}); err != nil || (got != nil) != there {
			t.Errorf("%s: %v, error %v", name, got, err)
		}
	}
}

// TestDefinitionsAreCompiledOnce checks that definitions that did not change are
// not compiled again, even if the class changes.
func TestDefinitionsAreCompiledOnce(t *testing.T) {
	t.Parallel()
	c, x := New(nil), builder.Parse[clusterv1.ClusterClass](t, class)
	first, err := c.Definitions(x)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := c.Definitions(x); again != first {
		t.Error("resolved again")
	}
	before := c.of["u"].schemas
	x.ResourceVersion = "2"
	x.Status.Variables = append(x.Status.Variables, builder.Parse[clusterv1.ClusterClass](t, "status: {variables: [{name: b, definitions: [{from: p, required: true, schema: {openAPIV3Schema: {type: integer}}}]}]}").Status.Variables...)
	second, err := c.Definitions(x)
	if err != nil || second == first {
		t.Fatalf("error %v, as before: %v", err, second == first)
	}
	for key, schema := range before {
		if c.of["u"].schemas[key] != schema {
			t.Error("compiled again")
		}
	}
	if errs := second.Validate(field.NewPath("t"), &clusterv1.Topology{}, nil); len(errs) != 2 {
		t.Errorf("errors %v", errs)
	}
	for i := range 3 * most {
		x.UID = types.UID(fmt.Sprint(i))
		if _, err := c.Definitions(x); err != nil || len(c.of) > most {
			t.Fatalf("error %v, remembers %d classes", err, len(c.of))
		}
	}
}

// TestPatchesAreCompiledOnce checks this for a version of a class, whose name is in
// the problems.
func TestPatchesAreCompiledOnce(t *testing.T) {
	t.Parallel()
	c, x := New(nil), builder.Parse[clusterv1.ClusterClass](t, class)
	first, err := c.Patches(x)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := c.Patches(x); again != first {
		t.Error("compiled again")
	}
	x.ResourceVersion, x.Spec.Patches = "2", []clusterv1.ClusterClassPatch{{Name: "p", EnabledIf: "{{"}}
	if _, err := c.Patches(x); err == nil || !strings.HasPrefix(err.Error(), `ClusterClass ns/x: patch "p": enabledIf: `) {
		t.Errorf("error %v", err)
	}
}

func TestWhenAClassIsReady(t *testing.T) {
	t.Parallel()
	const unready = "ClusterClass is not successfully reconciled: "
	for want, change := range map[string]func(*clusterv1.ClusterClass){
		"": func(*clusterv1.ClusterClass) {},
		unready + `status of VariablesReady condition on ClusterClass must be "True"`: func(c *clusterv1.ClusterClass) { c.Status.Conditions = nil },
		unready + "ClusterClass.status.observedGeneration must be 2, but is 1":        func(c *clusterv1.ClusterClass) { c.Generation = 2 },
		unready + `status of VariablesReady condition on ClusterClass must be "True": ClusterClass ns/x: VariableDiscovery failed: the following variables have conflicting schemas: a`: func(c *clusterv1.ClusterClass) {
			c.Status.Conditions[0].Status, c.Status.Conditions[0].Reason = "False", "VariableDiscoveryFailed"
			c.Status.Conditions[0].Message = "VariableDiscovery failed: the following variables have conflicting schemas: a"
		},
		unready + "ClusterClass.status.observedGeneration must be 2, but is 1: ClusterClass ns/x: spec.a: there is no A ns/a; spec.b: there is no B ns/b": func(c *clusterv1.ClusterClass) {
			c.Generation = 2
			c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: "RefVersionsUpToDate", Status: "Unknown", Reason: "InternalError", Message: "spec.a: there is no A ns/a\nspec.b: there is no B ns/b"})
		},
	} {
		c := builder.Parse[clusterv1.ClusterClass](t, class)
		change(c)
		if got := Unready(c); got != want {
			t.Errorf("says %q, want %q", got, want)
		}
	}
}
