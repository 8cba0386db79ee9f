// SPDX-License-Identifier: Apache-2.0

// Package references reads the objects that other objects refer to, of any kind, from a
// management cluster.
//
// A Watcher reports that objects have changed, for callers that read them again then,
// and send no other requests.
package references

import (
	"context"
	"errors"
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
	"github.com/capstan-dev/capstan/internal/kit/suggest"
)

// Reference is the location of an object that another refers to.
type Reference struct {
	Namespace string
	clusterv1.ContractVersionedObjectReference
}

// At is the location of an object in a namespace.
func At(namespace string, to clusterv1.ContractVersionedObjectReference) Reference {
	return Reference{namespace, to}
}

// To is the location of the object with a key.
func To(k causes.Key) Reference {
	return Reference{k.Namespace, clusterv1.ContractVersionedObjectReference{APIGroup: k.Group, Kind: k.Kind, Name: k.Name}}
}

// Key is the key of the object at a location.
func (r Reference) Key() causes.Key {
	return causes.Key{Group: r.APIGroup, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
}

// Reader reads objects of a management cluster.
type Reader struct{ Mgmt client.WithWatch }

// NotInstalledError means that the management cluster does not serve a kind.
type NotInstalledError struct{ Kind string }

func (e *NotInstalledError) Error() string {
	return fmt.Sprintf("the management cluster does not know the kind %s: is this a Capstan management cluster (`capstan status`), and is the provider of that kind installed?", e.Kind)
}

// Explain turns the API machinery's word for a missing CRD into ours.
func Explain(err error, kind string) error {
	if meta.IsNoMatchError(err) {
		return &NotInstalledError{kind}
	}
	return err
}

// few objects of a kind are read one at a time: a list may return many others.
const few = 4

// Find reads the objects behind references, with a number of requests that depends only
// on their kinds. An object that does not exist is nil, one that cannot be read is left out.
func (c Reader) Find(ctx context.Context, cluster client.ObjectKey, refs []Reference) (map[Reference]*unstructured.Unstructured, error) {
	kinds := map[Reference]map[string]bool{} // by a reference without a name
	for _, ref := range refs {
		kind := ref
		if kind.Name = ""; kinds[kind] == nil {
			kinds[kind] = map[string]bool{}
		}
		kinds[kind][ref.Name] = ref.Name != ""
	}
	found := map[Reference]*unstructured.Unstructured{}
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
	return found, Together(ctx, reads...)
}

// findKind reads the named objects of one kind: from the list of those with the label of
// the cluster, and those that it lacks from the list of all.
func (c Reader) findKind(ctx context.Context, cluster client.ObjectKey, kind Reference, names map[string]bool) (found []unstructured.Unstructured, err error) {
	all := []client.ListOption{client.InNamespace(kind.Namespace)}
	for _, of := range [][]client.ListOption{append(all, OfCluster(cluster.Name)), all} {
		if len(names) <= few {
			break
		}
		gvk, err := c.Mapped(kind)
		if err != nil {
			return nil, err
		}
		objects, err := c.ListKind(ctx, gvk, of...)
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
		obj, err := c.Get(ctx, at)
		if err != nil {
			return nil, err
		}
		if obj != nil {
			found = append(found, *obj)
		}
	}
	return found, nil
}

// OfCluster selects the objects with the label of a Cluster.
func OfCluster(name string) client.ListOption {
	return client.MatchingLabels{clusterv1.ClusterNameLabel: name}
}

// Get reads the object behind a reference; nil if it does not exist.
func (c Reader) Get(ctx context.Context, at Reference) (*unstructured.Unstructured, error) {
	if at.Name == "" {
		return nil, nil
	}
	gvk, err := c.Mapped(at)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	if err := c.Mgmt.Get(ctx, client.ObjectKey{Namespace: at.Namespace, Name: at.Name}, u); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("get %s %s/%s: %w", at.Kind, at.Namespace, at.Name, err)
	}
	return u, nil
}

// Mapped is the version of a kind that the API server prefers.
func (c Reader) Mapped(at Reference) (schema.GroupVersionKind, error) {
	mapping, err := c.Mgmt.RESTMapper().RESTMapping(at.GroupKind())
	if err != nil {
		return schema.GroupVersionKind{}, Explain(err, at.Kind+"."+at.APIGroup)
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
func (c Reader) ParseObject(ctx context.Context, text, namespace string) (none causes.Key, err error) {
	kind, name, ok := strings.Cut(text, "/")
	if !ok || kind == "" || name == "" || strings.Contains(name, "/") {
		return none, fmt.Errorf("%q is not KIND/NAME, such as cluster/demo", text)
	}
	resource, err := c.resource(ctx, strings.ToLower(kind))
	if err != nil {
		return none, err
	}
	gvk, err := c.Mgmt.RESTMapper().KindFor(resource.WithVersion(""))
	if err != nil {
		return none, Explain(err, kind)
	}
	mapping, err := c.Mgmt.RESTMapper().RESTMapping(gvk.GroupKind())
	if err != nil {
		return none, Explain(err, kind)
	}
	key := causes.Key{Group: gvk.Group, Kind: gvk.Kind, Namespace: namespace, Name: name}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		key.Namespace = ""
	}
	return key, nil
}

// singular turns a resource with a line break behind it into the name of its kind.
var singular = strings.NewReplacer("ies\n", "y", "sses\n", "ss", "s\n", "", "\n", "")

// resource finds the resource of a kind among the CRDs, whose names are RESOURCE.GROUP.
func (c Reader) resource(ctx context.Context, kind string) (none schema.GroupResource, err error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinitionList"})
	if err := c.Mgmt.List(ctx, &list); err != nil {
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
		one := singular.Replace(r.Resource + "\n")
		known = append(known, one)
		if (group == "" || group == r.Group) && (typed == one || slices.Contains([]string{typed, typed + "s", typed + "es"}, r.Resource)) {
			found = append(found, r)
		}
	}
	switch len(found) {
	case 0:
		return none, fmt.Errorf("no CRD defines kind %q%s", kind, suggest.Hint(typed, known))
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

// Together runs what does not wait for each other at the same time.
func Together(ctx context.Context, all ...func(context.Context) error) error {
	errs := make([]error, len(all))
	var running sync.WaitGroup
	for i, f := range all {
		running.Go(func() { errs[i] = f(ctx) })
	}
	running.Wait()
	return errors.Join(errs...)
}
