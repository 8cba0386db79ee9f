// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"cmp"
	"slices"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/discovery"
)

// definedVerbs are those of kinds that are defined, in the order that a server
// lists them in.
var definedVerbs = []string{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}

var verbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// Groups lists the named groups with their versions.
func (s *Set) Groups() *metav1.APIGroupList {
	list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}}
	for _, g := range s.groups() {
		if g.Name != "" {
			list.Groups = append(list.Groups, g)
		}
	}
	return list
}

// Group describes one group; nil if it is not served.
func (s *Set) Group(name string) *metav1.APIGroup {
	for _, g := range s.groups() {
		if g.Name == name {
			g.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}
			return &g
		}
	}
	return nil
}

// groups puts the versions of each group together, the preferred one first.
func (s *Set) groups() (groups []metav1.APIGroup) {
	for _, gv := range s.GroupVersions() {
		v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		at := slices.IndexFunc(groups, func(g metav1.APIGroup) bool { return g.Name == gv.Group })
		if at < 0 {
			groups = append(groups, metav1.APIGroup{Name: gv.Group, PreferredVersion: v})
			at = len(groups) - 1
		}
		groups[at].Versions = append(groups[at].Versions, v)
	}
	return groups
}

// Resources lists what a group and version holds; nil if it is not served.
func (s *Set) Resources(gv schema.GroupVersion) *metav1.APIResourceList {
	list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"}, GroupVersion: gv.String()}
	if gv.Group != "" {
		list.APIVersion = "v1"
	}
	for _, k := range s.All() {
		if k.GroupVersion() != gv {
			continue
		}
		r := metav1.APIResource{
			Name: k.Resource, SingularName: k.Singular(), Namespaced: k.Namespaced, Kind: k.Kind,
			Verbs: k.Verbs, ShortNames: k.Short, Categories: k.Categories,
		}
		if slices.Contains(k.Verbs, "watch") {
			r.StorageVersionHash = discovery.StorageVersionHash(k.StoredAs.Group, k.StoredAs.Version, k.StoredAs.Kind)
		}
		list.APIResources = append(list.APIResources, r)
		for _, below := range allSubs(k) {
			sub := metav1.APIResource{Name: k.Resource + "/" + below.Name, Namespaced: k.Namespaced, Kind: below.GVK.Kind, Verbs: below.Verbs}
			if below.GVK.GroupVersion() != gv {
				sub.Group, sub.Version = below.GVK.Group, below.GVK.Version
			}
			list.APIResources = append(list.APIResources, sub)
		}
	}
	if list.APIResources == nil {
		return nil
	}
	if slices.ContainsFunc(everywhere.all, func(k *Kind) bool { return k.GroupVersion() == gv }) {
		slices.SortStableFunc(list.APIResources, func(a, b metav1.APIResource) int { return cmp.Compare(a.Name, b.Name) })
	}
	return list
}

// Aggregated is the one-document form of discovery: of the core group if
// legacy, else of all named groups.
func (s *Set) Aggregated(legacy bool) *apidiscoveryv2.APIGroupDiscoveryList {
	list := &apidiscoveryv2.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{APIVersion: "apidiscovery.k8s.io/v2", Kind: "APIGroupDiscoveryList"},
	}
	all := s.All()
	for _, g := range s.groups() {
		if (g.Name == "") != legacy {
			continue
		}
		found := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.Name}}
		for _, gv := range g.Versions {
			v := apidiscoveryv2.APIVersionDiscovery{Version: gv.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
			for _, k := range all {
				if k.Group == g.Name && k.Version == gv.Version {
					v.Resources = append(v.Resources, aggregated(k))
				}
			}
			found.Versions = append(found.Versions, v)
		}
		list.Items = append(list.Items, found)
	}
	return list
}

func aggregated(k *Kind) apidiscoveryv2.APIResourceDiscovery {
	scope := apidiscoveryv2.ScopeCluster
	if k.Namespaced {
		scope = apidiscoveryv2.ScopeNamespace
	}
	r := apidiscoveryv2.APIResourceDiscovery{
		Resource: k.Resource, SingularResource: k.Singular(), Scope: scope, ResponseKind: responseKind(k, k.GroupVersionKind),
		Verbs: k.Verbs, ShortNames: k.Short, Categories: k.Categories,
	}
	for _, s := range allSubs(k) {
		r.Subresources = append(r.Subresources, apidiscoveryv2.APISubresourceDiscovery{
			Subresource: s.Name, ResponseKind: responseKind(k, s.GVK), Verbs: s.Verbs,
		})
	}
	return r
}

// responseKind names the kind of a resource's responses; its own group and version
// are omitted, except for kinds that are defined by a CustomResourceDefinition.
func responseKind(k *Kind, gvk schema.GroupVersionKind) *metav1.GroupVersionKind {
	if k.Custom == nil && gvk.GroupVersion() == k.GroupVersion() {
		return &metav1.GroupVersionKind{Kind: gvk.Kind}
	}
	return &metav1.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind}
}

// allSubs lists every subresource of k with its kind, by name.
func allSubs(k *Kind) []Subresource {
	subs := slices.Clone(k.Subs)
	if k.Status {
		subs = append(subs, Subresource{"status", k.GroupVersionKind, readWrite})
	}
	if k.Scale {
		subs = append(subs, Subresource{"scale", schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}, readWrite})
	}
	if k.Custom == nil {
		slices.SortFunc(subs, func(a, b Subresource) int { return cmp.Compare(a.Name, b.Name) })
	}
	return subs
}

// GroupVersions lists the groups with their versions, in the order of discovery.
func (s *Set) GroupVersions() []schema.GroupVersion {
	var gvs []schema.GroupVersion
	for _, k := range s.All() {
		if !slices.Contains(gvs, k.GroupVersion()) {
			gvs = append(gvs, k.GroupVersion())
		}
	}
	return gvs
}

// Paths lists the roots of what is served.
func (s *Set) Paths() []string {
	paths := []string{"/api", "/api/v1", "/apis"}
	for _, g := range s.Groups().Groups {
		paths = append(paths, "/apis/"+g.Name)
		for _, v := range g.Versions {
			paths = append(paths, "/apis/"+v.GroupVersion)
		}
	}
	return append(paths, "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version")
}
