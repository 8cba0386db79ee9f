// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/causes"
	"github.com/capstan-dev/capstan/internal/kit/nearest"
)

// reference is the location of an object that another refers to.
type reference struct {
	namespace string
	clusterv1.ContractVersionedObjectReference
}

// few objects of a kind are read one at a time: a list may return many others.
const few = 4

// find reads the objects behind references, with a number of requests that depends only
// on their kinds. An object that does not exist is nil, one that cannot be read is left out.
func (c *Client) find(ctx context.Context, cluster client.ObjectKey, refs []reference) (map[reference]*unstructured.Unstructured, error) {
	kinds := map[reference]map[string]bool{} // by a reference without a name
	for _, ref := range refs {
		kind := ref
		if kind.Name = ""; kinds[kind] == nil {
			kinds[kind] = map[string]bool{}
		}
		kinds[kind][ref.Name] = ref.Name != ""
	}
	found := map[reference]*unstructured.Unstructured{}
	var mu sync.Mutex // guards found
	var reads []func(context.Context) error
	for kind, names := range kinds {
		reads = append(reads, func(ctx context.Context) error {
			all := maps.Clone(names)
			objects, err := c.findKind(ctx, cluster, kind, names)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			at := kind
			for at.Name = range all {
				found[at] = nil
			}
			for i := range objects {
				at.Name = objects[i].GetName()
				found[at] = &objects[i]
			}
			return nil
		})
	}
	return found, together(ctx, reads...)
}

// findKind reads the named objects of one kind: from the list of those with the label of
// the cluster, and those that it lacks from the list of all.
func (c *Client) findKind(ctx context.Context, cluster client.ObjectKey, kind reference, names map[string]bool) (found []unstructured.Unstructured, err error) {
	all := []client.ListOption{client.InNamespace(kind.namespace)}
	for _, of := range [][]client.ListOption{append(all, ofCluster(cluster.Name)), all} {
		if len(names) <= few {
			break
		}
		gvk, err := c.mapped(kind)
		if err != nil {
			return nil, err
		}
		objects, err := c.listKind(ctx, gvk, of...)
		if err != nil {
			return nil, err
		}
		for _, obj := range objects {
			if names[obj.GetName()] {
				found = append(found, obj)
				delete(names, obj.GetName())
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		at := kind
		at.Name = name
		obj, err := c.get(ctx, at)
		if err != nil {
			return nil, err
		}
		if obj != nil {
			found = append(found, *obj)
		}
	}
	return found, nil
}

func ofCluster(name string) client.ListOption {
	return client.MatchingLabels{clusterv1.ClusterNameLabel: name}
}

// list lists the objects with the label of a Cluster.
func (c *Client) list(ctx context.Context, key client.ObjectKey, into client.ObjectList) error {
	if err := c.mgmt.List(ctx, into, client.InNamespace(key.Namespace), ofCluster(key.Name)); err != nil {
		return fmt.Errorf("list objects of Cluster %s: %w", key, err)
	}
	return nil
}

func (c *Client) listKind(ctx context.Context, gvk schema.GroupVersionKind, of ...client.ListOption) ([]unstructured.Unstructured, error) {
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err := explain(c.mgmt.List(ctx, &list, of...), gvk.Kind); err != nil {
		return nil, fmt.Errorf("list objects of kind %s: %w", gvk.Kind, err)
	}
	return list.Items, nil
}

// get reads the object behind a reference; nil if it does not exist.
func (c *Client) get(ctx context.Context, at reference) (*unstructured.Unstructured, error) {
	if at.Name == "" {
		return nil, nil
	}
	gvk, err := c.mapped(at)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	if err := c.mgmt.Get(ctx, client.ObjectKey{Namespace: at.namespace, Name: at.Name}, u); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("get %s %s/%s: %w", at.Kind, at.namespace, at.Name, err)
	}
	return u, nil
}

// mapped is the version of a kind that the API server prefers.
func (c *Client) mapped(at reference) (schema.GroupVersionKind, error) {
	mapping, err := c.mgmt.RESTMapper().RESTMapping(at.GroupKind())
	if err != nil {
		return schema.GroupVersionKind{}, explain(err, at.Kind+"."+at.APIGroup)
	}
	return mapping.GroupVersionKind, nil
}

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
