// SPDX-License-Identifier: Apache-2.0

package install

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/capstan-dev/capstan/manifests"
)

func TestInventoryListsWhatRunsAndIsWrittenOnce(t *testing.T) {
	t.Parallel()
	c := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{providersResource: "ProviderList", namespaces: "NamespaceList"})
	entry := func(name, provider, kind string) map[string]any {
		return map[string]any{
			"apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Provider",
			"metadata": map[string]any{"namespace": "capstan-system", "name": name, "labels": map[string]any{
				"clusterctl.cluster.x-k8s.io": "", "clusterctl.cluster.x-k8s.io/core": "inventory", "cluster.x-k8s.io/provider": name}},
			"providerName": provider, "type": kind, "version": manifests.Release,
		}
	}
	core := entry("cluster-api", "cluster-api", "CoreProvider")
	bootstrap, controlPlane := entry("bootstrap-kubeadm", "kubeadm", "BootstrapProvider"), entry("control-plane-kubeadm", "kubeadm", "ControlPlaneProvider")
	local := entry("infrastructure-local", "local", "InfrastructureProvider")
	for _, start := range []struct {
		what       string
		running    []string
		want       []map[string]any
		wantWrites []string
	}{
		{"the first one", []string{"core", "kubeadm", "local"}, []map[string]any{bootstrap, core, controlPlane, local},
			[]string{"create namespaces", "create providers", "create providers", "create providers", "create providers"}},
		{"another one", []string{"core", "kubeadm", "local"}, []map[string]any{bootstrap, core, controlPlane, local}, nil},
		{"one with less", []string{"core"}, []map[string]any{core}, []string{"delete providers", "delete providers", "delete providers"}},
		{"one with other", []string{"core", "local"}, []map[string]any{core, local}, []string{"create providers"}},
	} {
		c.ClearActions()
		if err := syncInventory(t.Context(), c, start.running); err != nil {
			t.Fatalf("%s: %v", start.what, err)
		}
		var writes []string
		for _, a := range c.Actions() {
			if a.GetVerb() != "list" {
				writes = append(writes, a.GetVerb()+" "+a.GetResource().Resource)
			}
		}
		if diff := cmp.Diff(start.wantWrites, writes); diff != "" {
			t.Errorf("%s: writes (-want +got):\n%s", start.what, diff)
		}
		list, err := c.Resource(providersResource).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var got []map[string]any
		for _, u := range list.Items {
			got = append(got, u.Object)
		}
		if diff := cmp.Diff(start.want, got); diff != "" {
			t.Errorf("%s: inventory (-want +got):\n%s", start.what, diff)
		}
	}
}

// TestInventoryIsBroughtUpToDate is about what somebody, or an earlier release,
// wrote otherwise.
func TestInventoryIsBroughtUpToDate(t *testing.T) {
	t.Parallel()
	p := inventory[0]
	old := p.written(&unstructured.Unstructured{})
	old.Object["version"] = "v1.2.3"
	old.SetLabels(map[string]string{"mine": "kept"})
	c := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{providersResource: "ProviderList"}, old)
	if err := syncInventory(t.Context(), c, []string{"core"}); err != nil {
		t.Fatal(err)
	}
	got, err := c.Resource(providersResource).Namespace(manifests.Namespace).Get(t.Context(), p.label, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Object["version"] != manifests.Release || got.GetLabels()["mine"] != "kept" || len(got.GetLabels()) != 4 {
		t.Errorf("got %v", got)
	}
}

// TestInventoryNamesProvidersAsTheDefinitionsDo holds names to the labels by
// which clusterctl finds what belongs to a provider.
func TestInventoryNamesProvidersAsTheDefinitionsDo(t *testing.T) {
	t.Parallel()
	crds, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	labels, want := map[string]bool{}, map[string]bool{}
	for _, crd := range crds {
		if label, ok := crd.Labels["cluster.x-k8s.io/provider"]; ok {
			labels[label] = true
		}
	}
	for _, p := range inventory {
		want[p.label] = true
	}
	if diff := cmp.Diff(want, labels); diff != "" {
		t.Errorf("labels of definitions (-inventory +definitions):\n%s", diff)
	}
}
