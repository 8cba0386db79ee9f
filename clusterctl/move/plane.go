// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/clusterctl/apply"
	"github.com/capstan-dev/capstan/clusterctl/move/plan"
	"github.com/capstan-dev/capstan/internal/access/shards"
)

// Plane has all requests of a move to a management cluster. A move reads and writes only
// through it, so that a wrapper sees all requests.
type Plane interface {
	// String names the management cluster for people.
	String() string
	// List returns all objects of a kind, in a namespace or everywhere. With labels
	// only those that have them.
	List(ctx context.Context, kind plan.Kind, namespace string, labels ...string) ([]*unstructured.Unstructured, error)
	Get(ctx context.Context, kind plan.Kind, key types.NamespacedName) (*unstructured.Unstructured, error)
	// Create, Update and Patch store the response of the server in obj.
	Create(ctx context.Context, obj *unstructured.Unstructured) error
	Update(ctx context.Context, obj *unstructured.Unstructured) error
	// Patch merges a patch into the object with the UID of obj.
	Patch(ctx context.Context, obj *unstructured.Unstructured, patch map[string]any) error
	// Delete deletes obj, unless it has changed.
	Delete(ctx context.Context, obj *unstructured.Unstructured) error
	// Allowed reports whether the user has a permission on objects of a kind.
	Allowed(ctx context.Context, verb string, kind schema.GroupResource, namespace string) (bool, error)
}

// Kinds that every management cluster has.
var (
	namespaces  = plan.Kind{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, Resource: "namespaces"}
	configMaps  = plan.Kind{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Resource: "configmaps", Namespaced: true}
	secrets     = plan.Kind{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, Resource: "secrets", Namespaced: true}
	definitions = plan.Kind{GroupVersionKind: schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, Resource: "customresourcedefinitions"}
	reviews     = plan.Kind{GroupVersionKind: apply.ReviewKind(), Resource: "selfsubjectaccessreviews"}
	providers   = plan.Kind{GroupVersionKind: clusterctlv1.GroupVersion().WithKind("Provider"), Resource: "providers", Namespaced: true}
)

// fieldOwner is the field manager of the fields that a move writes.
const fieldOwner = "capstan"

// Connect returns the management cluster behind cfg. It sends no request.
func Connect(cfg *rest.Config, name string) (Plane, error) {
	known := &kinds{DefaultRESTMapper: meta.NewDefaultRESTMapper(nil)}
	c, err := client.New(cfg, client.Options{Scheme: runtime.NewScheme(), Mapper: known})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", name, err)
	}
	known.learn(namespaces, configMaps, secrets, reviews)
	return &plane{Client: c, name: name, known: known}, nil
}

// NewPlane returns the management cluster of a client that resolves the resources of
// kinds itself.
func NewPlane(c client.Client, name string) Plane { return &plane{Client: c, name: name} }

// plane is a management cluster.
type plane struct {
	client.Client
	name string
	// known are the kinds that were found so far; nil if the client resolves them itself.
	known *kinds
}

// kinds maps kinds as definitions specify, so that no request is needed for that.
type kinds struct {
	mu sync.RWMutex // guards the mapper
	*meta.DefaultRESTMapper
}

func (k *kinds) learn(all ...plan.Kind) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, kind := range all {
		scope := meta.RESTScope(meta.RESTScopeRoot)
		if kind.Namespaced {
			scope = meta.RESTScopeNamespace
		}
		resource := kind.GroupVersion().WithResource(kind.Resource)
		k.AddSpecific(kind.GroupVersionKind, resource, resource, scope)
	}
}

// RESTMapping implements meta.RESTMapper.
func (k *kinds) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.DefaultRESTMapper.RESTMapping(kind, versions...)
}

func (p *plane) String() string { return p.name }

// List implements Plane.
func (p *plane) List(ctx context.Context, kind plan.Kind, namespace string, labels ...string) (all []*unstructured.Unstructured, err error) {
	if p.known != nil {
		p.known.learn(kind)
	}
	opts := []client.ListOption{client.InNamespace(namespace)}
	if len(labels) > 0 {
		opts = append(opts, client.HasLabels(labels))
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	read := func() error {
		all = nil
		return shards.EachPage(ctx, p.Client, list, func() error {
			for n := range list.Items {
				all = append(all, &list.Items[n])
			}
			return nil
		}, opts...)
	}
	err = read()
	for len(all) > 0 && apierrors.IsResourceExpired(err) { // the content of the first page is no longer stored
		err = read()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: list %s: %w", p.name, kind.Resource, err)
	}
	return all, nil
}

// Get implements Plane.
func (p *plane) Get(ctx context.Context, kind plan.Kind, key types.NamespacedName) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(kind.GroupVersionKind)
	return obj, p.explain("get "+kind.Kind+" "+key.String(), p.Client.Get(ctx, key, obj))
}

// Create implements Plane.
func (p *plane) Create(ctx context.Context, obj *unstructured.Unstructured) error {
	return p.explain("create "+plan.Name(obj), p.Client.Create(ctx, obj, client.FieldOwner(fieldOwner)))
}

// Update implements Plane.
func (p *plane) Update(ctx context.Context, obj *unstructured.Unstructured) error {
	return p.explain("update "+plan.Name(obj), p.Client.Update(ctx, obj, client.FieldOwner(fieldOwner)))
}

// Patch implements Plane.
func (p *plane) Patch(ctx context.Context, obj *unstructured.Unstructured, patch map[string]any) error {
	what := "patch " + plan.Name(obj)
	patch = within(patch, "metadata", "uid", obj.GetUID())
	text, err := json.Marshal(patch)
	if err == nil {
		err = p.Client.Patch(ctx, obj, client.RawPatch(types.MergePatchType, text), client.FieldOwner(fieldOwner))
	}
	return p.explain(what, err)
}

// Delete implements Plane.
func (p *plane) Delete(ctx context.Context, obj *unstructured.Unstructured) error {
	uid, version := obj.GetUID(), obj.GetResourceVersion()
	return p.explain("delete "+plan.Name(obj), p.Client.Delete(ctx, obj, client.Preconditions{UID: &uid, ResourceVersion: &version}))
}

// Allowed implements Plane.
func (p *plane) Allowed(ctx context.Context, verb string, kind schema.GroupResource, namespace string) (bool, error) {
	allowed, err := apply.Allowed(ctx, p.Client, apply.Right{Verb: verb, GroupResource: kind, Namespace: namespace})
	if err != nil {
		return false, fmt.Errorf("%s: %w", p.name, err)
	}
	return allowed, nil
}

// explain adds the request and the management cluster to an error.
func (p *plane) explain(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s: %w", p.name, what, err)
}

// within is a patch with one more field, below another one.
func within(patch map[string]any, below, field string, value any) map[string]any {
	out := maps.Clone(patch)
	inner, _ := patch[below].(map[string]any)
	inner = maps.Clone(inner)
	if inner == nil {
		inner = map[string]any{}
	}
	inner[field] = value
	out[below] = inner
	return out
}
