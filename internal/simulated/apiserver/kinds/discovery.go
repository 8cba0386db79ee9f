// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"slices"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var verbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// Groups lists the named groups with their only version.
func Groups() *metav1.APIGroupList {
	list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}}
	for _, gv := range GroupVersions() {
		if gv.Group != "" {
			list.Groups = append(list.Groups, group(gv))
		}
	}
	return list
}

// Group describes one group; nil if it is not served.
func Group(name string) *metav1.APIGroup {
	for _, gv := range GroupVersions() {
		if gv.Group == name {
			g := group(gv)
			g.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}
			return &g
		}
	}
	return nil
}

// Resources lists what a group and version holds; nil if it is not served.
func Resources(gv schema.GroupVersion) *metav1.APIResourceList {
	list := &metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"},
		GroupVersion: gv.String(),
	}
	for _, k := range all {
		if k.GroupVersion() != gv {
			continue
		}
		r := metav1.APIResource{
			Name: k.Resource, SingularName: k.Singular(), Namespaced: k.Namespaced, Kind: k.Kind,
			Verbs: verbs, ShortNames: k.Short, Categories: k.Categories,
		}
		if k.Virtual {
			r.Verbs = []string{"create"}
		}
		list.APIResources = append(list.APIResources, r)
		for _, s := range allSubs(k) {
			sub := metav1.APIResource{Name: k.Resource + "/" + s.Name, Namespaced: k.Namespaced, Kind: s.GVK.Kind, Verbs: s.Verbs}
			if s.GVK.GroupVersion() != gv {
				sub.Group, sub.Version = s.GVK.Group, s.GVK.Version
			}
			list.APIResources = append(list.APIResources, sub)
		}
	}
	if list.APIResources == nil {
		return nil
	}
	return list
}

// Aggregated is the one-document form of discovery: of the core group if
// legacy, else of all named groups.
func Aggregated(legacy bool) *apidiscoveryv2.APIGroupDiscoveryList {
	list := &apidiscoveryv2.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{APIVersion: "apidiscovery.k8s.io/v2", Kind: "APIGroupDiscoveryList"},
	}
	for _, gv := range GroupVersions() {
		if (gv.Group == "") != legacy {
			continue
		}
		v := apidiscoveryv2.APIVersionDiscovery{Version: gv.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
		for _, k := range all {
			if k.GroupVersion() == gv {
				v.Resources = append(v.Resources, aggregated(k))
			}
		}
		list.Items = append(list.Items, apidiscoveryv2.APIGroupDiscovery{
			ObjectMeta: metav1.ObjectMeta{Name: gv.Group}, Versions: []apidiscoveryv2.APIVersionDiscovery{v},
		})
	}
	return list
}

func aggregated(k *Kind) apidiscoveryv2.APIResourceDiscovery {
	scope := apidiscoveryv2.ScopeCluster
	if k.Namespaced {
		scope = apidiscoveryv2.ScopeNamespace
	}
	r := apidiscoveryv2.APIResourceDiscovery{
		Resource: k.Resource, SingularResource: k.Singular(), Scope: scope, ResponseKind: responseKind(k.GroupVersionKind),
		Verbs: verbs, ShortNames: k.Short, Categories: k.Categories,
	}
	if k.Virtual {
		r.Verbs = []string{"create"}
	}
	for _, s := range allSubs(k) {
		r.Subresources = append(r.Subresources, apidiscoveryv2.APISubresourceDiscovery{
			Subresource: s.Name, ResponseKind: responseKind(s.GVK), Verbs: s.Verbs,
		})
	}
	return r
}

func responseKind(gvk schema.GroupVersionKind) *metav1.GroupVersionKind {
	return &metav1.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind}
}

// allSubs lists every subresource of k with the kind it speaks.
func allSubs(k *Kind) []Subresource {
	var subs []Subresource
	readWrite := []string{"get", "patch", "update"}
	if k.Status {
		subs = append(subs, Subresource{"status", k.GroupVersionKind, readWrite})
	}
	if k.Scale {
		subs = append(subs, Subresource{"scale", schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}, readWrite})
	}
	return append(subs, k.Subs...)
}

func group(gv schema.GroupVersion) metav1.APIGroup {
	v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
	return metav1.APIGroup{Name: gv.Group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v}
}

// GroupVersions lists the groups with their versions, in the order of discovery.
func GroupVersions() []schema.GroupVersion {
	var gvs []schema.GroupVersion
	for _, k := range all {
		if !slices.Contains(gvs, k.GroupVersion()) {
			gvs = append(gvs, k.GroupVersion())
		}
	}
	return gvs
}

// Paths lists the roots of what is served.
func Paths() []string {
	paths := []string{"/api", "/api/v1", "/apis"}
	for _, gv := range GroupVersions() {
		if gv.Group != "" {
			paths = append(paths, "/apis/"+gv.Group, "/apis/"+gv.String())
		}
	}
	return append(paths, "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version")
}
