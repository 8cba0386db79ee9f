// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
)

// withFoo serves a kind in two versions in addition.
func withFoo(t *testing.T) *kinds.Set {
	t.Helper()
	return kinds.Everywhere().With([]kinds.Defined{definition(t, "b.com", "Foo", "Established", "v1beta1 served", "v1 served storage")})
}

func TestGroupsListVersionsByPreference(t *testing.T) {
	t.Parallel()
	served := withFoo(t)
	groups := served.Groups()
	if groups.Kind != "APIGroupList" || groups.APIVersion != "v1" {
		t.Errorf("list %+v", groups.TypeMeta)
	}
	of := func(name string) (versions []string, preferred string) {
		i := slices.IndexFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == name })
		if i < 0 {
			return nil, ""
		}
		for _, v := range groups.Groups[i].Versions {
			versions = append(versions, v.GroupVersion)
		}
		return versions, groups.Groups[i].PreferredVersion.GroupVersion
	}
	for name, want := range map[string][]string{"": nil, "apps": {"apps/v1"}, "autoscaling": {"autoscaling/v2", "autoscaling/v1"}, "b.com": {"b.com/v1", "b.com/v1beta1"}} {
		versions, preferred := of(name)
		if !slices.Equal(versions, want) || want != nil && preferred != want[0] {
			t.Errorf("group %q has %v, prefers %s, want %v", name, versions, preferred, want)
		}
		if g := served.Group(name); name != "" && (g == nil || g.Kind != "APIGroup" || g.APIVersion != "v1" || g.PreferredVersion.GroupVersion != want[0]) {
			t.Errorf("group %q: %+v", name, g)
		}
	}
	if g := served.Group("nope"); g != nil {
		t.Errorf("a group that is not served: %+v", g)
	}
	for _, name := range []string{"apps", "b.com"} {
		if versions, _ := of(name); len(slices.Compact(versions)) != len(versions) {
			t.Errorf("group %s repeats %v", name, versions)
		}
	}
}

// The hashes are those that API servers of Kubernetes show for these kinds.
func TestResourcesOfBuiltInKinds(t *testing.T) {
	t.Parallel()
	list := kinds.Everywhere().Resources(schema.GroupVersion{Version: "v1"})
	if list.Kind != "APIResourceList" || list.APIVersion != "" || list.GroupVersion != "v1" {
		t.Errorf("list %+v %s", list.TypeMeta, list.GroupVersion)
	}
	var order []string
	found := map[string]metav1.APIResource{}
	for _, r := range list.APIResources {
		order = append(order, r.Name)
		found[r.Name] = r
	}
	if !slices.IsSorted(order) {
		t.Errorf("the resources are not in order: %v", order)
	}
	for _, want := range []metav1.APIResource{
		{Name: "configmaps", SingularName: "configmap", Namespaced: true, Kind: "ConfigMap", ShortNames: []string{"cm"}, StorageVersionHash: "qFsyl6wFWjQ=", Verbs: metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}},
		{Name: "namespaces", SingularName: "namespace", Kind: "Namespace", ShortNames: []string{"ns"}, StorageVersionHash: "Q3oi5N2YM8M=", Verbs: metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"}},
		{Name: "namespaces/finalize", Kind: "Namespace", Verbs: metav1.Verbs{"update"}},
		{Name: "pods", SingularName: "pod", Namespaced: true, Kind: "Pod", ShortNames: []string{"po"}, Categories: []string{"all"}, StorageVersionHash: "xPOwRZ+Yhw8=", Verbs: metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}},
		{Name: "pods/log", Namespaced: true, Kind: "Pod", Verbs: metav1.Verbs{"get"}},
		{Name: "pods/status", Namespaced: true, Kind: "Pod", Verbs: metav1.Verbs{"get", "patch", "update"}},
		{Name: "pods/eviction", Namespaced: true, Group: "policy", Version: "v1", Kind: "Eviction", Verbs: metav1.Verbs{"create"}},
		{Name: "serviceaccounts/token", Namespaced: true, Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest", Verbs: metav1.Verbs{"create"}},
		{Name: "replicationcontrollers/scale", Namespaced: true, Group: "autoscaling", Version: "v1", Kind: "Scale", Verbs: metav1.Verbs{"get", "patch", "update"}},
		{Name: "bindings", SingularName: "binding", Namespaced: true, Kind: "Binding", Verbs: metav1.Verbs{"create"}},
	} {
		if diff := cmp.Diff(want, found[want.Name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", want.Name, diff)
		}
	}
	if list := kinds.Everywhere().Resources(schema.GroupVersion{Group: "apps", Version: "v1"}); list.APIVersion != "v1" {
		t.Errorf("a list of a named group: %+v", list.TypeMeta)
	}
	if list := kinds.Everywhere().Resources(schema.GroupVersion{Group: "apps", Version: "v2"}); list != nil {
		t.Errorf("a version that is not served: %+v", list)
	}
}

func TestResourcesOfDefinedKinds(t *testing.T) {
	t.Parallel()
	served := withFoo(t)
	hash := served.Resources(schema.GroupVersion{Group: "b.com", Version: "v1"}).APIResources[0].StorageVersionHash
	for _, version := range []string{"v1", "v1beta1"} {
		want := []metav1.APIResource{
			{Name: "foos", SingularName: "foo", Namespaced: true, Kind: "Foo", ShortNames: []string{"x"}, Categories: []string{"all"}, StorageVersionHash: hash, Verbs: metav1.Verbs{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}},
			{Name: "foos/status", Namespaced: true, Kind: "Foo", Verbs: metav1.Verbs{"get", "patch", "update"}},
			{Name: "foos/scale", Namespaced: true, Group: "autoscaling", Version: "v1", Kind: "Scale", Verbs: metav1.Verbs{"get", "patch", "update"}},
		}
		if diff := cmp.Diff(want, served.Resources(schema.GroupVersion{Group: "b.com", Version: version}).APIResources); diff != "" || hash == "" {
			t.Errorf("%s, hash %q (-want +got):\n%s", version, hash, diff)
		}
	}
}

func TestAggregatedDiscoveryHasAllResources(t *testing.T) {
	t.Parallel()
	served := withFoo(t)
	find := func(list *apidiscoveryv2.APIGroupDiscoveryList, group, version, resource string) *apidiscoveryv2.APIResourceDiscovery {
		for _, g := range list.Items {
			for _, v := range g.Versions {
				for _, r := range v.Resources {
					if g.Name == group && v.Version == version && r.Resource == resource && v.Freshness == apidiscoveryv2.DiscoveryFreshnessCurrent {
						return &r
					}
				}
			}
		}
		return nil
	}
	legacy, named := served.Aggregated(true), served.Aggregated(false)
	for _, k := range served.All() {
		in, not := named, legacy
		if k.Group == "" {
			in, not = legacy, named
		}
		r := find(in, k.Group, k.Version, k.Resource)
		if r == nil || find(not, k.Group, k.Version, k.Resource) != nil {
			t.Errorf("%s is not where it belongs", k.GroupVersionKind)
			continue
		}
		if (r.Scope == apidiscoveryv2.ScopeNamespace) != k.Namespaced || r.ResponseKind.Kind != k.Kind || r.SingularResource != k.Singular() {
			t.Errorf("%s is %+v", k.GroupVersionKind, r)
		}
	}
	foo := find(named, "b.com", "v1", "foos")
	if diff := cmp.Diff(&metav1.GroupVersionKind{Group: "b.com", Version: "v1", Kind: "Foo"}, foo.ResponseKind); diff != "" || len(foo.Subresources) != 2 || foo.Subresources[1].ResponseKind.Kind != "Scale" {
		t.Errorf("defined kind %+v (-want +got):\n%s", foo, diff)
	}
	pods := find(legacy, "", "v1", "pods")
	if i := slices.IndexFunc(pods.Subresources, func(s apidiscoveryv2.APISubresourceDiscovery) bool { return s.Subresource == "eviction" }); i < 0 || *pods.Subresources[i].ResponseKind != (metav1.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"}) {
		t.Errorf("subresources of Pods %+v", pods.Subresources)
	}
}

func TestPathsAreTheRootsOfWhatIsServed(t *testing.T) {
	t.Parallel()
	got := withFoo(t).Paths()
	for _, want := range []string{"/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/apis/b.com", "/apis/b.com/v1", "/apis/b.com/v1beta1", "/healthz", "/livez", "/readyz", "/metrics", "/openapi/v2", "/openapi/v3", "/version"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not in %v", want, got)
		}
	}
	if slices.Contains(kinds.Everywhere().Paths(), "/apis/b.com") {
		t.Error("another cluster serves it, too")
	}
}
