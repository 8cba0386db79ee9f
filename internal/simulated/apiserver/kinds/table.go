// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	_ "embed" // for served.txt
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// served has one line for each resource, in the order of discovery:
// group/version, kind, plural, and what is special about it:
//
//	ns        in a namespace
//	status    has a status subresource
//	scale     has a scale subresource
//	gen       counts generations
//	all       belongs to the category "all"
//	virtual   only answers questions
//	short=a   may be called a
//	cat=a     belongs to the category a
//	verbs=a,b all that can be done with it
//	as=v      is kept as the kind of the same name in group/version v
//
//go:embed served.txt
var served string

var (
	readWrite = []string{"get", "patch", "update"}
	proxied   = []string{"create", "delete", "get", "patch", "update"}
)

func core(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Version: "v1", Kind: kind}
}

var subresources = map[string][]Subresource{
	"nodes": {{"proxy", core("NodeProxyOptions"), proxied}},
	"pods": {
		{"attach", core("PodAttachOptions"), []string{"create", "get"}},
		{"binding", core("Binding"), []string{"create"}},
		{"ephemeralcontainers", core("Pod"), readWrite},
		{"eviction", schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"}, []string{"create"}},
		{"exec", core("PodExecOptions"), []string{"create", "get"}},
		{"log", core("Pod"), []string{"get"}},
		{"portforward", core("PodPortForwardOptions"), []string{"create", "get"}},
		{"proxy", core("PodProxyOptions"), proxied},
		{"resize", core("Pod"), readWrite},
	},
	"services": {{"proxy", core("ServiceProxyOptions"), proxied}},
	"serviceaccounts": {
		{"token", schema.GroupVersionKind{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest"}, []string{"create"}},
	},
	"namespaces": {
		{"finalize", core("Namespace"), []string{"update"}},
	},
	"certificatesigningrequests": {
		{"approval", schema.GroupVersionKind{Group: "certificates.k8s.io", Version: "v1", Kind: "CertificateSigningRequest"}, readWrite},
	},
}

func build() []*Kind {
	var kinds []*Kind
	for line := range strings.Lines(served) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		k := &Kind{GroupVersionKind: groupVersion(f[0]).WithKind(f[1]), Resource: f[2], Subs: subresources[f[2]], List: f[1] + "List", Verbs: verbs, singular: strings.ToLower(f[1])}
		k.StoredAs, k.stored = k.GroupVersionKind, k.GroupResource()
		is := func(word string) bool { return slices.Contains(f[3:], word) }
		k.Namespaced, k.Status, k.Scale = is("ns"), is("status"), is("scale")
		k.Generation, k.Virtual = is("gen"), is("virtual")
		if k.Virtual {
			k.Verbs = []string{"create"}
		}
		if is("all") {
			k.Categories = []string{"all"}
		}
		for _, word := range f[3:] {
			switch what, value, _ := strings.Cut(word, "="); what {
			case "short":
				k.Short = append(k.Short, value)
			case "cat":
				k.Categories = append(k.Categories, value)
			case "verbs":
				k.Verbs = strings.Split(value, ",")
			case "as":
				k.StoredAs = groupVersion(value).WithKind(k.Kind)
				k.stored = schema.GroupResource{Group: k.StoredAs.Group, Resource: k.Resource}
			}
		}
		kinds = append(kinds, k)
	}
	return kinds
}

func groupVersion(text string) schema.GroupVersion {
	gv, err := schema.ParseGroupVersion(text)
	if err != nil {
		panic(err)
	}
	return gv
}
