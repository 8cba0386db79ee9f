// SPDX-License-Identifier: Apache-2.0

// Package provider reads, watches, adopts and instantiates the objects of
// providers. They are handled as unstructured objects, according to the contract
// that the labels of their CRDs name.
package provider

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// Definitions is the kind of a CRD, of which only the metadata is read.
var Definitions = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// Object is an object of a provider, with the contract version by which to read it.
// Objects returns objects that are shared with the cache: copy them before changing
// them.
type Object struct {
	*unstructured.Unstructured
	Contract string
}

// Kind is a kind of a provider: the API version to use and the contract version
// that it follows.
type Kind struct {
	schema.GroupVersionKind
	Contract string // empty if it was not requested
}

// KindError means that a kind cannot be used. Only a change to a CRD helps, or if
// it is foreign, to the reference.
type KindError struct {
	Kind    schema.GroupKind
	Problem string // the problem and the remedy
	NoCRD   bool   // so no object of the kind can exist
	Foreign bool   // no kind of a provider, or not one for the role
}

// Error implements error.
func (e *KindError) Error() string { return fmt.Sprintf("kind %s: %s", e.Kind, e.Problem) }

// Objects provides access to the objects of providers. It is shared by all
// controllers.
type Objects struct {
	mgmt      client.Client
	informers cache.Cache

	mu      sync.Mutex // guards the fields below
	watched map[watch]bool
	indexes map[index]bool // that have been created
}

// index is an index of a kind by a label.
type index struct {
	kind  schema.GroupVersionKind
	label string
}

// New returns an Objects. mgmt must read CRD metadata and unstructured objects from
// the cache of informers; without informers there are no watches.
func New(mgmt client.Client, informers cache.Cache) *Objects {
	return &Objects{mgmt: mgmt, informers: informers, watched: map[watch]bool{}, indexes: map[index]bool{}}
}

// Kind returns which API version of a kind to use, and its contract, from the
// labels of its CRD. The error is a KindError if the CRD is missing or lacks the
// labels, and for kinds that no provider can have.
func (o *Objects) Kind(ctx context.Context, gk schema.GroupKind) (kind Kind, err error) {
	err = o.labelled(ctx, gk, func(labels map[string]string) (err error) {
		kind.GroupVersionKind = gk.WithVersion("")
		kind.Contract, kind.Version, err = contract.Choose(labels)
		return err
	})
	return kind, err
}

// KindAs returns the contract by which an API version of a kind must be read.
// Errors are those of Kind.
func (o *Objects) KindAs(ctx context.Context, gvk schema.GroupVersionKind) (Kind, error) {
	kind := Kind{GroupVersionKind: gvk}
	err := o.labelled(ctx, gvk.GroupKind(), func(labels map[string]string) (err error) {
		kind.Contract, err = contract.Followed(labels, gvk.Version)
		return err
	})
	return kind, err
}

// labelled calls read with the labels of a CRD.
func (o *Objects) labelled(ctx context.Context, gk schema.GroupKind, read func(map[string]string) error) error {
	if err := reference.Provided(gk); err != nil {
		return &KindError{Kind: gk, Problem: err.Error(), Foreign: true}
	}
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(Definitions)
	name := contract.CRDName(gk.Group, gk.Kind)
	err := o.mgmt.Get(ctx, client.ObjectKey{Name: name}, crd, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return &KindError{Kind: gk, Problem: fmt.Sprintf("there is no CRD %s: install the provider that brings it, or correct apiGroup and kind", name), NoCRD: true}
	case err != nil:
		return fmt.Errorf("get CRD %s: %w", name, err)
	}
	if err := read(crd.Labels); err != nil {
		return &KindError{Kind: gk, Problem: fmt.Sprintf("CRD %s: %v", name, err)}
	}
	return nil
}

// Get reads the object of a reference from the cache. An object that is not found
// gives a NotFound error of apierrors; a kind that cannot be used gives a
// KindError.
func (o *Objects) Get(ctx context.Context, namespace string, ref clusterv1.ContractVersionedObjectReference) (*Object, error) {
	kind, err := o.Kind(ctx, ref.GroupKind())
	if err != nil {
		return nil, err
	}
	return o.read(ctx, kind, client.ObjectKey{Namespace: namespace, Name: ref.Name}, "version %s, named by the contract label of its CRD, is not served: correct the label, or serve the version")
}

// GetAs is Get for a reference that also names the API version: it does not check
// whether the CRD follows a contract.
func (o *Objects) GetAs(ctx context.Context, kind schema.GroupVersionKind, key client.ObjectKey) (*Object, error) {
	if err := reference.Provided(kind.GroupKind()); err != nil {
		return nil, &KindError{Kind: kind.GroupKind(), Problem: err.Error(), Foreign: true}
	}
	return o.read(ctx, Kind{GroupVersionKind: kind}, key, "version %s is not served: install the provider that brings it, or correct apiVersion and kind")
}

// read reads an object; unserved is the problem if the kind does not exist.
func (o *Objects) read(ctx context.Context, kind Kind, key client.ObjectKey, unserved string) (*Object, error) {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(kind.GroupVersionKind)
	if err := o.mgmt.Get(ctx, key, obj, client.UnsafeDisableDeepCopy); err != nil {
		if meta.IsNoMatchError(err) {
			return nil, &KindError{Kind: kind.GroupKind(), Problem: fmt.Sprintf(unserved, kind.Version)}
		}
		return nil, fmt.Errorf("get %s %s: %w", kind.Kind, key, err)
	}
	if obj.GetNamespace() != key.Namespace { // the API server ignores the namespace for such kinds
		return nil, &KindError{Kind: kind.GroupKind(), Problem: "its objects are in no namespace, and belong to all users: refer to a kind whose objects are in namespaces", Foreign: true}
	}
	return &Object{obj, kind.Contract}, nil
}

// List reads the objects of a kind that have labels, from the cache, where they are
// indexed by one of the labels, by. The objects are shared with the cache, and must
// not be changed. Errors are those of Kind.
func (o *Objects) List(ctx context.Context, gk schema.GroupKind, namespace, by string, with client.MatchingLabels) ([]unstructured.Unstructured, error) {
	kind, err := o.Kind(ctx, gk)
	if err != nil {
		return nil, err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	opts := []client.ListOption{client.InNamespace(namespace), with, client.UnsafeDisableDeepCopy}
	if o.informers != nil {
		field, err := o.indexed(ctx, kind.GroupVersionKind, by)
		if err != nil {
			return nil, err
		}
		opts = append(opts, client.MatchingFields{field: with[by]})
	}
	if err := o.mgmt.List(ctx, list, opts...); err != nil {
		return nil, fmt.Errorf("list %s: %w", list.GetKind(), err)
	}
	return list.Items, nil
}

// indexed creates the index of a kind by a label, once, and returns the field by
// which to list.
func (o *Objects) indexed(ctx context.Context, kind schema.GroupVersionKind, label string) (field string, err error) {
	field = "metadata.labels." + label
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.indexes[index{kind, label}] {
		return field, nil
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(kind)
	err = o.informers.IndexField(ctx, obj, field, func(obj client.Object) []string {
		if value, ok := obj.GetLabels()[label]; ok {
			return []string{value}
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("index %s by label %s: %w", kind.Kind, label, err)
	}
	o.indexes[index{kind, label}] = true
	return field, nil
}

// Delete deletes obj, unless it is being deleted. It succeeds if the object is not
// found.
func (o *Objects) Delete(ctx context.Context, obj *Object) error {
	return o.delete(ctx, obj, client.Preconditions{UID: new(obj.GetUID())})
}

func (o *Objects) delete(ctx context.Context, obj *Object, as client.Preconditions) error {
	if !obj.GetDeletionTimestamp().IsZero() {
		return nil
	}
	err := o.mgmt.Delete(ctx, obj.Unstructured, as)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s %s: %w", obj.GetKind(), client.ObjectKeyFromObject(obj), err)
	}
	return nil
}
