// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
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
