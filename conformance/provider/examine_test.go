// SPDX-License-Identifier: Apache-2.0

package provider_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/conformance/provider"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// TestARunThatIsEndedLeavesNothing in the midst of a pause.
func TestARunThatIsEndedLeavesNothing(t *testing.T) {
	t.Parallel()
	withMemory(t, definitions(), func(ctx context.Context, f *fakeProvider) {
		ending, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		c := configOf("InfraCluster")
		provider.InMemory(&c, f.client, f.nodes)
		c.Progress = func(r conformance.Result) {
			if strings.Contains(r.Check, "of a paused Cluster") {
				cancel(errors.New("Ctrl-C"))
			}
		}
		r := provider.Examine(ending, c)
		if r.Problem != "the run was ended: Ctrl-C" || r.Passed == 0 || r.Failed > 0 {
			t.Errorf("problem %q, %d passed, %d failed", r.Problem, r.Passed, r.Failed)
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk("FakeClusterList"))
		if err := f.client.List(ctx, list); err != nil {
			t.Fatal(err)
		}
		for _, obj := range list.Items {
			t.Errorf("%s/%s is left", obj.GetNamespace(), obj.GetName())
		}
	})
}

// TestAKindThatIsNotInstalledIsTheProvidersFault and one that only helps is not.
func TestAKindThatIsNotInstalledIsTheProvidersFault(t *testing.T) {
	t.Parallel()
	all := definitions()
	delete(all, "FakeCluster")
	wantFailures(t, "InfraCluster", inMemory(t, configOf("InfraCluster"), all),
		misbehaviour{"", "An InfraCluster is defined by a CustomResourceDefinition.", "no CustomResourceDefinition of FakeCluster"})
	r := inMemory(t, configOf("InfraMachine"), all)
	if want := `FakeMachine: watch FakeCluster: no matches for kind "FakeCluster"`; !strings.HasPrefix(r.Problem, want) || r.Failed > 0 {
		t.Errorf("problem %q, %d failed; want a problem %q", r.Problem, r.Failed, want)
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
		"{roles: [InfraMachine], infraCluster: {kinds: [{group: a, kind: b}]}}": "no example and no kinds for InfraMachine",
		"timeout: -1s":          "want more than zero",
		"objects: [{kind: A}]":  "objects[0]",
		"files: [nowhere.yaml]": "open nowhere.yaml",
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
	testenv.OwnPlanes(t, 1)
	c := configOf("InfraCluster")
	c.Program, c.Roles = testenv.Binary(t), nil
	provider.Unhurried(&c)
	c.Start = func(ctx context.Context, cfg *rest.Config) error {
		s, err := scheme()
		if err != nil {
			return err
		}
		mgmt, err := client.NewWithWatch(cfg, client.Options{Scheme: s})
		if err == nil {
			_, err = startFake(ctx, mgmt, nil, definitions())
		}
		return err
	}
	provider.Run(t, c)
}
