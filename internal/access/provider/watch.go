// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// RefIndex is the index for finding the objects that refer to a provider object.
// Index creates it.
const RefIndex = "provider.refs"

// Index lets Watcher find the objects of the kind of obj that refer to a provider
// object. Call it once for each kind, before the cache starts.
func Index(ctx context.Context, indexer client.FieldIndexer, obj client.Object, refs func(client.Object) []clusterv1.ContractVersionedObjectReference) error {
	err := indexer.IndexField(ctx, obj, RefIndex, func(o client.Object) (keys []string) {
		return refKeys(refs(o))
	})
	if err != nil {
		return fmt.Errorf("index %T by its references: %w", obj, err)
	}
	return nil
}

// refKeys are by what a reference is found: an event of its object, or of the CRD of
// its kind.
func refKeys(refs []clusterv1.ContractVersionedObjectReference) (keys []string) {
	for _, ref := range refs {
		if ref.IsDefined() {
			keys = append(keys, refKey(ref.GroupKind(), ref.Name), contract.CRDName(ref.APIGroup, ref.Kind))
		}
	}
	return keys
}

func refKey(gk schema.GroupKind, name string) string { return gk.String() + "/" + name }

// Watcher is what Watch adds watches to; a controller is one.
type Watcher interface {
	Watch(src source.Source) error
}

// Trigger is what an event of a provider object triggers.
type Trigger struct {
	Controller string // its name; a kind is watched once for each controller
	Watcher    Watcher
	// List is an empty list of the kind to reconcile: the owner of the object, and the
	// objects that refer to it, to which it may not belong. Index must have been
	// called.
	List client.ObjectList
	// To returns the requests for an object instead, for controllers whose objects
	// neither own it nor refer to it; List is not needed then.
	To handler.MapFunc
	// ToDefinition returns the requests for a changed CRD; nil, with a List, means
	// the objects that refer to its kind.
	ToDefinition handler.MapFunc
	// Matters returns the fields of an object whose changes count; nil for all.
	Matters func(*unstructured.Unstructured) []any
}

type watch struct {
	controller string
	kind       schema.GroupVersionKind
}

// Watch makes events of the kind that ref names trigger w permanently. Existing
// objects trigger nothing: read the object after Watch. It need not exist yet. A
// kind that is not served is not watched: reading it fails, and a reconcile follows
// when its CRD is created or changed.
func (o *Objects) Watch(ctx context.Context, ref clusterv1.ContractVersionedObjectReference, w Trigger) error {
	if !o.canTrigger(w) {
		return nil
	}
	if err := o.WatchDefinitions(ctx, w); err != nil {
		return err
	}
	kind, err := o.Kind(ctx, ref.GroupKind())
	if err != nil {
		return err
	}
	return o.WatchAs(ctx, kind.GroupVersionKind, w)
}

// canTrigger reports whether a controller runs that can be triggered, which is not so in
// tests.
func (o *Objects) canTrigger(w Trigger) bool { return o.informers != nil && w.Watcher != nil }

// WatchAs is Watch for a known API version.
func (o *Objects) WatchAs(ctx context.Context, kind schema.GroupVersionKind, w Trigger) (err error) {
	if err := reference.Provided(kind.GroupKind()); err != nil {
		return &KindError{Kind: kind.GroupKind(), Problem: err.Error(), Foreign: true}
	}
	this := watch{w.Controller, kind}
	if !o.canTrigger(w) || o.watches(this) {
		return nil
	}
	if err := o.WatchDefinitions(ctx, w); err != nil {
		return err
	}
	requests := w.To
	if requests == nil {
		if requests, err = o.requests(w.List); err != nil {
			return err
		}
	}
	matters := controller.Changed()
	if w.Matters != nil {
		matters = controller.Matters(w.Matters)
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(kind)
	return o.follow(ctx, this, obj, w.Watcher, handler.EnqueueRequestsFromMapFunc(requests), matters)
}

// WatchDefinitions lets a CRD that is created or changes trigger those of w that refer to
// its kind. Watch and WatchAs do so too.
func (o *Objects) WatchDefinitions(ctx context.Context, w Trigger) error {
	this := watch{w.Controller, Definitions}
	requests := w.ToDefinition
	if requests == nil && w.List != nil {
		requests = func(ctx context.Context, crd client.Object) []reconcile.Request {
			return controller.Listed(ctx, o.mgmt, w.List.DeepCopyObject().(client.ObjectList), client.MatchingFields{RefIndex: crd.GetName()})
		}
	}
	if requests == nil || !o.canTrigger(w) || o.watches(this) {
		return nil
	}
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(Definitions)
	return o.follow(ctx, this, crd, w.Watcher, retryNow(requests), controller.Changed())
}

// retryNow returns a handler for events of a CRD. It resets the backoff: the API server
// serves the kind shortly after the CRD reports it, and no event follows.
func retryNow(requests handler.MapFunc) handler.EventHandler {
	wake := func(ctx context.Context, crd client.Object, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		for _, req := range requests(ctx, crd) {
			q.Forget(req)
			q.Add(req)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			wake(ctx, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			wake(ctx, e.ObjectNew, q)
		},
	}
}

// follow has events of a kind handled for a controller, from now on; once for each.
func (o *Objects) follow(ctx context.Context, this watch, obj client.Object, watcher Watcher, handle handler.EventHandler, matters predicate.Predicate) error {
	// It waits until the informer is filled, as the first to read the kind would.
	informer, err := o.informers.GetInformer(ctx, obj)
	if meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("watch %s for controller %s: %w", this.kind, this.controller, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.watched[this] {
		return nil
	}
	src := &source.Informer{Informer: informer, Handler: handle, Predicates: []predicate.Predicate{onlyNew(), matters}}
	if err := watcher.Watch(src); err != nil {
		return fmt.Errorf("watch %s for controller %s: %w", this.kind, this.controller, err)
	}
	o.watched[this] = true
	return nil
}

func (o *Objects) watches(this watch) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.watched[this]
}

// onlyNew drops objects that existed when the watch started: they are read after that.
// Otherwise each kind would trigger another reconcile of all objects after a start.
func onlyNew() predicate.Predicate {
	return predicate.Funcs{CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList }}
}

// requests maps a provider object to its owner of the kind of list, and to the
// objects that refer to it.
func (o *Objects) requests(list client.ObjectList) (handler.MapFunc, error) {
	gvk, err := apiutil.GVKForObject(list, o.mgmt.Scheme())
	if err != nil {
		return nil, fmt.Errorf("kind of %T: %w", list, err)
	}
	wake := schema.GroupKind{Group: gvk.Group, Kind: gvk.Kind[:len(gvk.Kind)-len("List")]}
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		found := list.DeepCopyObject().(client.ObjectList)
		gk := obj.GetObjectKind().GroupVersionKind().GroupKind()
		wanted := controller.Listed(ctx, o.mgmt, found, client.InNamespace(obj.GetNamespace()), client.MatchingFields{RefIndex: refKey(gk, obj.GetName())})
		if name := owner.Name(obj, wake); name != "" {
			wanted = append(wanted, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(), Name: name}})
		}
		return wanted // the queue removes duplicates
	}, nil
}
