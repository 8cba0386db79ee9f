// SPDX-License-Identifier: Apache-2.0

package install

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/capstan-dev/capstan/internal/app/controllers"
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
		{"one without any of Cluster API", []string{"certificates"}, nil, []string{"delete providers", "delete providers"}},
		{"the same again", []string{"certificates"}, nil, nil}, // no namespace for what it does not run
	} {
		c.ClearActions()
		if err := syncInventory(t.Context(), c, start.running); err != nil {
			t.Fatalf("%s: %v", start.what, err)
		}
		if diff := cmp.Diff(start.wantWrites, writes(c.Actions())); diff != "" {
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

func TestAPlaneLeavesTheDefinitionsOfWhatItDoesNotRun(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		providers              []string
		clusters, certificates bool
	}{
		"all":               {controllers.PlaneProviders(), true, true},
		"core alone":        {[]string{controllers.Core}, true, false},
		"certificates only": {[]string{controllers.Certificates}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crds, err := ofPlane(tc.providers)
			if err != nil {
				t.Fatal(err)
			}
			there := map[string]bool{}
			for _, crd := range crds {
				there[crd.Name] = true
			}
			if there["clusters.cluster.x-k8s.io"] != tc.clusters || there["certificates.cert-manager.io"] != tc.certificates {
				t.Errorf("definitions %v, want those of Clusters: %t, of Certificates: %t", there, tc.clusters, tc.certificates)
			}
		})
	}
}

// TestAManagerNotesWhatItRunsAndNothingOfOthers starts a manager in clusters that
// have other managers.
func TestAManagerNotesWhatItRunsAndNothingOfOthers(t *testing.T) {
	t.Parallel()
	written := func(namespace, version string, p part) *unstructured.Unstructured {
		obj := p.written(&unstructured.Unstructured{})
		obj.SetNamespace(namespace)
		obj.Object["version"] = version
		return obj
	}
	byManager := func(p part) part {
		p.byManager = true
		return p
	}
	core, bootstrap, controlPlane, local := inventory[0], inventory[1], inventory[2], inventory[3]
	const here, now = manifests.Namespace, manifests.Release
	for name, tc := range map[string]struct {
		there   []*unstructured.Unstructured
		running []string
		writes  []string
		want    map[string]string // version and the program that runs it
	}{
		"in a new cluster": {nil, []string{"core", "kubeadm"}, []string{"create namespaces", "create providers", "create providers", "create providers"},
			map[string]string{here + "/cluster-api": now + " capstan-manager", here + "/bootstrap-kubeadm": now + " capstan-manager", here + "/control-plane-kubeadm": now + " capstan-manager"}},
		"again": {[]*unstructured.Unstructured{written(here, now, byManager(core))}, []string{"core"}, nil, map[string]string{here + "/cluster-api": now + " capstan-manager"}},
		"in a later release": {[]*unstructured.Unstructured{written(here, "v1.2.3", byManager(core))}, []string{"core"}, []string{"update providers"},
			map[string]string{here + "/cluster-api": now + " capstan-manager"}},
		"next to another manager": {[]*unstructured.Unstructured{written(here, now, byManager(local))}, []string{"core"}, []string{"create namespaces", "create providers"},
			map[string]string{here + "/cluster-api": now + " capstan-manager", here + "/infrastructure-local": now + " capstan-manager"}},
		"in the place of upstream's": {[]*unstructured.Unstructured{written("capi-system", "v1.10.4", core)}, []string{"core"}, nil, map[string]string{"capi-system/cluster-api": "v1.10.4 "}},
		"next to a plane": {[]*unstructured.Unstructured{written(here, now, core)}, []string{"core", "local"}, []string{"create namespaces", "create providers"},
			map[string]string{here + "/cluster-api": now + " ", here + "/infrastructure-local": now + " capstan-manager"}},
		"where nothing of it has a name there": {nil, []string{"none"}, nil, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{providersResource: "ProviderList", namespaces: "NamespaceList"})
			for _, obj := range tc.there {
				if _, err := c.Resource(providersResource).Namespace(obj.GetNamespace()).Create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			c.ClearActions()
			if err := noteManager(t.Context(), c, tc.running); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.writes, writes(c.Actions())); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, noted(t, c)); diff != "" {
				t.Errorf("inventory (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("a plane leaves it, and takes over what it runs itself", func(t *testing.T) {
		c := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{providersResource: "ProviderList"},
			written(here, now, byManager(bootstrap)), written(here, now, byManager(controlPlane)), written(here, now, byManager(local)))
		if err := syncInventory(t.Context(), c, []string{"core", "local"}); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{here + "/cluster-api": now + " ", here + "/bootstrap-kubeadm": now + " capstan-manager", here + "/control-plane-kubeadm": now + " capstan-manager", here + "/infrastructure-local": now + " "}
		if diff := cmp.Diff(want, noted(t, c)); diff != "" {
			t.Errorf("inventory (-want +got):\n%s", diff)
		}
	})
}

func writes(actions []clienttesting.Action) (names []string) {
	for _, a := range actions {
		if a.GetVerb() != "list" {
			names = append(names, a.GetVerb()+" "+a.GetResource().Resource)
		}
	}
	return names
}

// noted returns the versions in the inventory, and the programs that run them.
func noted(t *testing.T, c dynamic.Interface) map[string]string {
	t.Helper()
	list, err := c.Resource(providersResource).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, u := range list.Items {
		all[u.GetNamespace()+"/"+u.GetName()] = u.Object["version"].(string) + " " + u.GetAnnotations()[manifests.RunByAnnotation]
	}
	return all
}

// TestInventoryIsBroughtUpToDate covers entries that a user, or an earlier release,
// wrote differently.
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

// TestInventoryNamesProvidersAsTheDefinitionsDo compares names with the labels by
// which clusterctl finds the objects of a provider.
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
