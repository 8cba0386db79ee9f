// SPDX-License-Identifier: Apache-2.0

package provider_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/conformance/provider"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// TestARunThatIsEndedLeavesNothing in the midst of a pause.
func TestARunThatIsEndedLeavesNothing(t *testing.T) {
	t.Parallel()
	env, _ := provide(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	const mark = "is interrupted"
	c := configOf("InfraCluster", []misbehaviour{{fault: mark}})
	c.Mgmt, c.Files = env.Config, []string{release(t, definitions(), grants())}
	provider.Limit(&c)
	c.Progress = func(r conformance.Result) {
		if strings.Contains(r.Check, "of a paused Cluster") {
			cancel(errors.New("Ctrl-C"))
		}
	}
	r := provider.Examine(ctx, c)
	if r.Problem != "the run was ended: Ctrl-C" || r.Passed == 0 || r.Failed > 0 {
		t.Errorf("problem %q, %d passed, %d failed", r.Problem, r.Passed, r.Failed)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk("FakeClusterList"))
	if err := env.Client.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for _, obj := range list.Items {
		if faults, _, _ := unstructured.NestedStringSlice(obj.Object, "spec", "faults"); len(faults) == 1 && faults[0] == mark {
			t.Errorf("%s/%s is left", obj.GetNamespace(), obj.GetName())
		}
	}
}

func TestConfigMistakesAreNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{}":                     "a management cluster is needed",
		"infraThing: {}":         "infraThing",
		"infraCluster: {}":       "InfraCluster: give an example, or kinds",
		"roles: [Thing]":         `there is no role "Thing"; there are InfraCluster, `,
		"kubernetesVersion: new": "kubernetesVersion",
		"timeout: -1s":           "want more than zero",
		"objects: [{kind: A}]":   "objects[0]",
		"files: [nowhere.yaml]":  "open nowhere.yaml",
		"infraMachine: {template: {kind: B}, kinds: [{group: a, kind: b}]}": "the template needs apiVersion and kind",
	} {
		c, err := provider.ReadConfig([]byte(text))
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = provider.Examine(t.Context(), c).Problem
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %q, want something with %q", text, got, want)
		}
	}
}

// TestRunStartsAPlaneAndTheProvider as authors do it in their tests.
func TestRunStartsAPlaneAndTheProvider(t *testing.T) {
	t.Parallel()
	c := configOf("InfraCluster", nil)
	c.Program, c.Roles = testenv.Binary(t), nil
	c.InfraCluster.Change = nil
	provider.Limit(&c)
	c.Start = func(ctx context.Context, cfg *rest.Config) error {
		_, err := startFake(ctx, cfg)
		return err
	}
	provider.Run(t, c)
}
