// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/clusterctl/causes"
	"github.com/capstan-dev/capstan/internal/kit/nearest"
)

// shortNames are those of kinds of Cluster API.
var shortNames = map[string]string{
	"cl": "clusters", "cc": "clusterclasses", "md": "machinedeployments", "ms": "machinesets", "mp": "machinepools",
	"ma": "machines", "mhc": "machinehealthchecks", "kcp": "kubeadmcontrolplanes", "ext": "extensionconfigs", "crs": "clusterresourcesets",
}

// ParseObject parses KIND/NAME from a command line. KIND is a kind or resource that a CRD
// defines, in any case, with its group if several groups have it.
func (c *Client) ParseObject(ctx context.Context, text, namespace string) (none causes.Key, err error) {
	kind, name, ok := strings.Cut(text, "/")
	if !ok || kind == "" || name == "" || strings.Contains(name, "/") {
		return none, fmt.Errorf("%q is not KIND/NAME, such as cluster/demo", text)
	}
	resource, err := c.resource(ctx, strings.ToLower(kind))
	if err != nil {
		return none, err
	}
	gvk, err := c.mgmt.RESTMapper().KindFor(resource.WithVersion(""))
	if err != nil {
		return none, explain(err, kind)
	}
	mapping, err := c.mgmt.RESTMapper().RESTMapping(gvk.GroupKind())
	if err != nil {
		return none, explain(err, kind)
	}
	key := causes.Key{Group: gvk.Group, Kind: gvk.Kind, Namespace: namespace, Name: name}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		key.Namespace = ""
	}
	return key, nil
}

// resource finds the resource of a kind among the CRDs, whose names are RESOURCE.GROUP.
func (c *Client) resource(ctx context.Context, kind string) (none schema.GroupResource, err error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinitionList"})
	if err := c.mgmt.List(ctx, &list); err != nil {
		return none, fmt.Errorf("list CRDs: %w", err)
	}
	typed, group, _ := strings.Cut(kind, ".")
	if long := shortNames[typed]; long != "" {
		typed = long
	}
	var found []schema.GroupResource
	var known []string
	for _, crd := range list.Items {
		r := schema.ParseGroupResource(crd.Name)
		known = append(known, strings.TrimSuffix(r.Resource, "s"))
		if (group == "" || group == r.Group) && slices.Contains([]string{typed, typed + "s", typed + "es"}, r.Resource) {
			found = append(found, r)
		}
	}
	switch len(found) {
	case 0:
		return none, fmt.Errorf("no CRD defines kind %q%s", kind, nearest.Hint(typed, known))
	case 1:
		return found[0], nil
	}
	// Cluster API's own kinds go before those of the same name.
	for _, r := range found {
		if r.Group == "cluster.x-k8s.io" {
			return r, nil
		}
	}
	return none, fmt.Errorf("several groups have kind %q: use one of %s, %s", kind, found[0], found[1])
}
